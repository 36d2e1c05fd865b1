"""Endpoints that name the limit of an answer in their own way."""

from collections.abc import Iterator

import pytest

from services.campaigns.llm import Conversation
from services.campaigns.records import Proposal
from services.campaigns.run import CampaignRun
from services.contracts.campaign_loops import StepName
from services.contracts.errors import JobFailed
from tests.support.campaign_run import StoredCampaign
from tests.support.scripted_llm import ScriptedLlm

OLD, NEW = "max_tokens", "max_completion_tokens"
REFUSES_OLD = {
    OLD: f"Unsupported parameter: '{OLD}' is not supported with this model. Use '{NEW}' instead."
}
REFUSES_NEW = {NEW: f"Unrecognized request argument supplied: {NEW}"}


@pytest.fixture
def llm() -> Iterator[ScriptedLlm]:
    with ScriptedLlm(lambda messages: f"answer {len(messages)}") as llm:
        yield llm


def begun(campaign: StoredCampaign, llm: ScriptedLlm, model: str) -> CampaignRun:
    own = {"base_url": f"{llm.origin}/v1", "model": model, "max_tokens": 77, "attempts": 1}
    campaign.create(llm=own)
    return campaign.run()


def converse(run: CampaignRun, loop: int = 1) -> list[str]:
    said: list[str] = []

    def step() -> Proposal:
        conversation = Conversation(run, "proposal", "Be brief.")
        said.extend(conversation.ask(text) for text in ("first", "second"))
        return Proposal(parent=0)

    run.step(loop, StepName.PROPOSAL, Proposal, step)
    return said


def limits(llm: ScriptedLlm) -> list[dict[str, int]]:
    """The limits in all requests, by name."""
    return [{name: body[name] for name in (OLD, NEW) if name in body} for body in llm.bodies]


def test_a_model_that_wants_the_newer_name_is_asked_under_it_from_then_on(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    llm.refused = REFUSES_OLD
    run = begun(campaign, llm, "newer")

    assert converse(run) == ["answer 2", "answer 4"]

    assert limits(llm) == [{OLD: 77}, {NEW: 77}, {NEW: 77}]
    assert run.budget.tokens == 220
    llm.refused = REFUSES_NEW  # another model behind the same name
    assert converse(run, loop=2) == ["answer 2", "answer 4"]
    assert limits(llm)[3:] == [{NEW: 77}, {OLD: 77}, {OLD: 77}]


@pytest.mark.parametrize(
    ("refused", "requests"),
    [({OLD: "The context is too long."}, 1), ({**REFUSES_OLD, **REFUSES_NEW}, 2)],
)
def test_any_other_refusal_is_the_end(
    campaign: StoredCampaign, llm: ScriptedLlm, refused: dict[str, str], requests: int
) -> None:
    llm.refused = refused

    with pytest.raises(JobFailed) as failed:
        converse(begun(campaign, llm, "refusing"))

    assert list(refused.values())[-1] in failed.value.message
    assert len(llm.bodies) == requests
