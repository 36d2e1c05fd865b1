"""LLMs by role: who is asked for what, and what each has cost."""

import pytest
from pydantic import ValidationError

from services.campaigns.llm.conversation import Conversation
from services.campaigns.run.records import Proposal
from services.campaigns.run.run import CampaignRun
from services.contracts.campaigns.loops import StepName
from tests.support.campaigns.run import StoredCampaign
from tests.support.campaigns.scripted_llm import ScriptedLlm

CHEAP, DEAR = {"prompt": 1.0, "completion": 1.0}, {"prompt": 100.0, "completion": 100.0}


def ask(run: CampaignRun, loop: int, step: StepName) -> str:
    said: list[str] = []

    def do() -> Proposal:
        said.append(Conversation(run, "asked", "Be brief.").ask("Well?"))
        return Proposal(parent=0)

    run.step(loop, step, Proposal, do)
    return said[0]


def test_each_role_asks_its_llm_at_its_price(campaign: StoredCampaign) -> None:
    with ScriptedLlm(lambda _: "weak") as weak, ScriptedLlm(lambda _: "strong") as strong:
        campaign.create(
            llm={"base_url": f"{strong.origin}/v1", "model": "strong", "price": DEAR},
            llm_by_role={
                "feedback": {"base_url": f"{weak.origin}/v1", "model": "weak", "price": CHEAP}
            },
        )
        run = campaign.run()

        assert ask(run, 1, StepName.PROPOSAL) == "strong"
        assert ask(run, 1, StepName.CODING) == "strong"
        assert ask(run, 1, StepName.FEEDBACK) == "weak"

    # 110 tokens each: two calls at the price of the one, and one at that of the other
    expected = 110 * (100 + 100 + 1) / 1e6
    assert run.budget.tokens == 330
    assert run.budget.cost == pytest.approx(expected)
    campaign.lost()
    assert campaign.run().budget.cost == pytest.approx(expected), "also after a restart"


def test_a_cost_needs_the_price_of_every_llm(campaign: StoredCampaign) -> None:
    with pytest.raises(ValidationError, match=r"llm_by_role\.coding\.price"):
        campaign.create(
            llm={"base_url": "http://127.0.0.1:9/v1", "model": "strong", "price": DEAR},
            llm_by_role={"coding": {"base_url": "http://127.0.0.1:9/v1", "model": "weak"}},
            budget={"cost": 1.0},
        )
