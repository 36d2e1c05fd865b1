"""The demonstration of campaigns, with stand-ins for training and evaluation."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from examples.demo_5_campaign.data import Quality, write_data
from examples.demo_5_campaign.run import line_of, search
from examples.demo_5_campaign.scripted_llm import reply
from examples.demo_common.printer import Printer
from examples.demo_common.steps import Demo
from services.contracts.campaigns.llms import CampaignLlm
from temper.client import Temper
from tests.integration.campaigns.test_campaigns import Campaigns, running_campaigns

RIGHT, UNCARRIED, SHUFFLED = Quality.RIGHT, Quality.UNCARRIED, Quality.SHUFFLED


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaigns]:
    folder = tmp_path_factory.mktemp("demo")
    with running_campaigns(folder) as campaigns, campaigns.worker():
        campaigns.llm.answer = reply
        yield campaigns


@pytest.mark.drill
@pytest.mark.parametrize(
    ("qualities", "verdicts"),
    [
        ((UNCARRIED, RIGHT, SHUFFLED), (True, True, False)),
        ((SHUFFLED, RIGHT, UNCARRIED), (False, True, False)),
        ((RIGHT, SHUFFLED, UNCARRIED), (True, False, False)),
    ],
)
def test_verdicts_follow_the_data_whatever_order_the_script_takes_them_in(
    campaigns: Campaigns, tmp_path: Path, qualities: Sequence[Quality], verdicts: Sequence[bool]
) -> None:
    data = write_data(tmp_path / "data", qualities, rows=300)
    llm = CampaignLlm.model_validate(
        {"base_url": f"{campaigns.llm.origin}/v1", "model": "scripted"}
    )
    with Temper(campaigns.settings["TEMPER_GATEWAY_URL"]) as client:
        demo = Demo(client, Printer(), tmp_path)
        report = search(demo, Path("base"), data, llm)

    attempts = {attempt.loop: attempt for attempt in report.attempts}
    assert [attempts[loop].accepted for loop in (1, 2, 3)] == list(verdicts)
    assert report.best_model == attempts[1 + qualities.index(RIGHT)].model
    assert report.final is not None
    assert report.final.ci95[0] > 0
    lines = [line_of(attempt) for attempt in report.attempts]
    assert "base model" in lines[0]
    assert sum(": accepted" in line for line in lines) == sum(verdicts)
