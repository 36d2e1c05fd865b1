"""Rewinding and forking campaigns on real processes, with stand-ins for training and evaluation."""

from functools import partial
from pathlib import Path

import pytest

from services.contracts.campaigns.campaigns import ForkCampaign, RewindCampaign
from services.contracts.campaigns.limits import CampaignBudget
from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobKind
from temper.client import ClientError, Temper
from tests.integration.campaigns.test_campaign_branches import Branching
from tests.integration.campaigns.test_campaigns import BAD, GOOD, Script, asks, running_campaigns
from tests.support.waiting import wait_for


@pytest.mark.drill
def test_a_rewound_campaign_and_its_fork_take_only_their_own_steps(tmp_path: Path) -> None:
    with running_campaigns(tmp_path) as campaigns, campaigns.worker():
        llm, client = campaigns.llm, campaigns.client
        llm.answer = Script({1: [BAD], 2: [GOOD]})
        llm.held = partial(asks, "\nLoop 1")
        campaign = campaigns.create(loops=2)
        assert llm.holding.wait(120)  # loop 1 has been trained on bad data and judged
        with Temper(campaigns.settings["TEMPER_GATEWAY_URL"]) as temper:
            back = RewindCampaign(loop=1, step=StepName.CODING)
            with pytest.raises(ClientError, match="pause it first"):
                temper.campaigns.rewind(campaign, back)
            client.http.post(f"/v1/campaigns/{campaign}/pause")
            llm.held = partial(asks, "nothing at all")
            client.wait_until(campaign, "paused")
            assert [loop.accepted for loop in temper.campaigns.loops(campaign)] == [
                None,
                False,
                None,
            ]

            llm.answer = Script({1: [GOOD], 2: [BAD]}, loop=1)
            temper.campaigns.rewind(campaign, back)
            assert [loop.steps for loop in temper.campaigns.loops(campaign)] == [
                [StepName.BASE],
                [StepName.PROPOSAL],
            ]
            client.http.post(f"/v1/campaigns/{campaign}/resume")
            client.wait_until(campaign, "succeeded", 240)

            verdicts = [loop.accepted for loop in temper.campaigns.loops(campaign)]
            assert verdicts == [None, True, False]
            trained = temper.jobs.page(
                kind=JobKind.FINE_TUNING, metadata={"campaign": campaign}
            ).data
            assert len(trained) == 6, "the model of the cleared step is not taken for the new one"

            asked = len(llm.requests)
            request = ForkCampaign(loop=2, step=StepName.PROPOSAL, budget=CampaignBudget(loops=2))
            fork = temper.campaigns.fork(campaign, request).id
            client.wait_until(fork, "succeeded", 240)

            first, second = temper.campaigns.loops(campaign), temper.campaigns.loops(fork)
            assert second[:2] == first[:2], "the steps before are shared"
            assert (second[2].parent, second[2].accepted) == (1, False)
            assert len(llm.requests) - asked == 5, "no shared step asks the LLM again"
            of_fork = temper.jobs.page(metadata={"campaign": fork}).data
            kinds = sorted(job.kind for job in of_fork)
            assert kinds == ["evaluation"] * 2 + ["fine_tuning"] * 2
            assert campaigns.get(fork)["result"]["best_model"] == first[1].model


@pytest.mark.drill
def test_rewinding_one_of_two_loops_leaves_the_training_of_the_other(tmp_path: Path) -> None:
    with running_campaigns(tmp_path) as campaigns, campaigns.worker():
        llm, client = campaigns.llm, campaigns.client
        llm.answer = Branching()
        llm.held = partial(asks, "judged")  # no verdict is explained
        campaign = campaigns.create({"branches": 2}, loops=2)

        def jobs_of(loop: int) -> list[str] | None:
            step = client.http.get(f"/v1/campaigns/{campaign}/loops/{loop}/running")
            return list(step.json()["jobs"]) or None if step.status_code == 200 else None

        wait_for(lambda: jobs_of(1), "loop 1 trains")
        kept = wait_for(lambda: jobs_of(2), "loop 2 trains")
        assert llm.holding.wait(120)
        client.http.post(f"/v1/campaigns/{campaign}/pause")
        llm.held = partial(asks, "nothing at all")
        client.wait_until(campaign, "paused")
        with Temper(campaigns.settings["TEMPER_GATEWAY_URL"]) as temper:
            temper.campaigns.rewind(campaign, RewindCampaign(loop=1, step=StepName.CODING))
            client.http.post(f"/v1/campaigns/{campaign}/resume")
            client.wait_until(campaign, "succeeded", 240)

            loops = temper.campaigns.loops(campaign)
            assert [loop.accepted for loop in loops] == [None, False, True]
            of_it = {"campaign": campaign}
            trained = temper.jobs.page(kind=JobKind.FINE_TUNING, metadata=of_it).data
            assert len(trained) == 3 * 2, "each with its trial, loop 1 twice and loop 2 once"
        assert (jobs_of(2) or [])[: len(kept)] == kept
