"""The running step, with what it did outside recorded before."""

import json

import pytest

from services.campaigns.data.benchmark import KnownItems, Parts
from services.campaigns.run.records import Attempt, Code, Measurement
from services.campaigns.run.run import CampaignRun
from services.campaigns.steps import measurement, running
from services.campaigns.steps.measurement import parts_of
from services.contracts.campaigns.loops import StepName
from tests.support.campaigns.run import StoredCampaign, measured


def test_data_of_final_items_alone_give_the_llm_a_measurement_and_no_failure(
    campaign: StoredCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(run: CampaignRun, model: str, parts: Parts, seed: int = 0) -> Measurement:
        return Measurement.model_validate(measured(model, 3))

    monkeypatch.setattr(measurement, "measure", measure)
    monkeypatch.setattr(measurement, "begin_measurement", lambda *_: {})
    campaign.create()
    campaign.finished_script(1)
    run = campaign.run()
    parts = parts_of(run)
    guesses = [{"instruction": f"Q: {item.question}", "output": "?"} for item in parts.final]
    data = campaign.settings.home / "jobs" / campaign.id / "loop-1" / "full.json"
    data.write_text(json.dumps(guesses))

    attempt = run.step(
        1,
        StepName.RUNNING,
        Attempt,
        lambda: running.run_experiment(run, Code(script="pass"), parts, KnownItems(parts)),
    )

    assert attempt.failed is None
    assert (attempt.rows, attempt.contaminated) == (0, len(guesses))
    assert attempt.measurement is not None
    assert attempt.measurement.model == "base"
