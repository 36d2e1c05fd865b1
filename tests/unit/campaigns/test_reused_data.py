"""Data of scripts that ran before, in a campaign that reuses them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from services.campaigns.run.records import Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.scripts.script import run_script
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.loops import StepName
from tests.support.campaigns.run import StoredCampaign
from tests.support.campaigns.scripted_llm import ScriptedLlm

SCRIPT = """
import json, sys, uuid
json.dump([len(sys.argv), str(uuid.uuid4())], open("data.json", "w"))
"""


@pytest.fixture(autouse=True)
def sandbox(campaign: StoredCampaign) -> Iterator[None]:
    with ScriptedLlm(lambda _: "") as served:
        home = campaign.settings.home
        campaign.settings = CampaignSettings(
            home=home, sandbox_url=served.origin, campaign_script_key="key"
        )
        yield


def data(run: CampaignRun, loop: int, source: str = SCRIPT, *, debug: bool = False) -> Any:
    """What the script makes in a step of this loop."""
    made: list[Any] = []

    def step() -> Proposal:
        made.append(json.loads(run_script(run, "full", source, debug=debug).read_text()))
        return Proposal(parent=0)

    run.step(loop, StepName.RUNNING, Proposal, step)
    return made[0]


def test_the_same_script_gives_a_later_loop_the_same_data(campaign: StoredCampaign) -> None:
    campaign.create(reuse_data=True)
    run = campaign.run()

    first = data(run, 1)

    assert data(run, 2) == first
    assert data(run, 3, SCRIPT + "# another") != first
    assert data(run, 4, debug=True) == [2, data(run, 5, debug=True)[1]]


def test_without_reuse_every_loop_runs_its_script(campaign: StoredCampaign) -> None:
    campaign.create()
    run = campaign.run()

    assert data(run, 1) != data(run, 2)


def test_a_script_that_failed_runs_again(campaign: StoredCampaign) -> None:
    campaign.create(reuse_data=True, branches=2)
    run = campaign.run()
    for loop in (1, 2):
        with pytest.raises(StepFailed, match="a word of its own"):
            data(run, loop, 'raise SystemExit("a word of its own")')
