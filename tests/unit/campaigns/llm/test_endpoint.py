"""Endpoints that name the limit of an answer in their own way."""

import json
from collections.abc import Iterator

import pytest

from services.campaigns.data.benchmark import KnownItems
from services.campaigns.llm.conversation import MOST_IN_A_ROW, Conversation
from services.campaigns.run.records import Code, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.steps.coding import write_code
from services.campaigns.steps.measurement import parts_of
from services.contracts.campaigns.loops import StepName
from services.contracts.errors import JobFailed
from tests.support.campaigns.run import StoredCampaign
from tests.support.campaigns.scripted_llm import ScriptedLlm

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
        try:
            said.extend(conversation.ask(text) for text in ("first", "second"))
        except StepFailed as failed:
            said.append(failed.message)
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
def test_a_refusal_of_one_request_fails_its_step_alone(
    campaign: StoredCampaign, llm: ScriptedLlm, refused: dict[str, str], requests: int
) -> None:
    llm.refused = refused
    run = begun(campaign, llm, "refusing")

    (said,) = converse(run)

    assert list(refused.values())[-1] in said
    assert len(llm.bodies) == requests
    llm.refused = {}
    assert converse(run, loop=2) == ["answer 2", "answer 4"]


def test_a_refusal_while_coding_fails_the_loop(campaign: StoredCampaign, llm: ScriptedLlm) -> None:
    llm.refused = {OLD: "filtered"}
    run = begun(campaign, llm, "refusing")
    items = KnownItems(parts_of(run))

    def step() -> Code:
        return write_code(run, Proposal(parent=0, task="Add more sums."), items)

    code = run.step(1, StepName.CODING, Code, step)

    assert code.failed is not None
    assert "filtered" in code.failed.message


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_an_endpoint_that_refuses_every_request_ends_the_campaign(
    campaign: StoredCampaign, llm: ScriptedLlm, status: int
) -> None:
    llm.refused, llm.refusal = {OLD: "no access"}, status

    with pytest.raises(JobFailed, match="no access") as failed:
        converse(begun(campaign, llm, "refusing"))

    assert failed.value.code == "llm_refused"


def test_refusals_in_a_row_end_the_campaign(campaign: StoredCampaign, llm: ScriptedLlm) -> None:
    llm.refused = {OLD: "filtered"}
    run = begun(campaign, llm, "refusing")
    for loop in range(1, MOST_IN_A_ROW):
        assert "refused the request" in converse(run, loop)[0]
    with pytest.raises(JobFailed, match=f"{MOST_IN_A_ROW} calls in a row"):
        converse(run, MOST_IN_A_ROW)


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>busy</html>",
        b'{"error": {"message": "overloaded"}}',
        b'{"choices": []}',
        b'{"choices": null}',
    ],
)
def test_an_answer_that_cannot_be_read_is_counted_and_asked_for_again(
    campaign: StoredCampaign, llm: ScriptedLlm, raw: bytes
) -> None:
    llm.raw = lambda messages: raw if len(messages) == 2 else None
    run = begun(campaign, llm, "odd")

    assert converse(run) == ["", "answer 4"]

    assert len(llm.requests) == 2
    assert run.budget.tokens > 110
    assert any("given up" in message for message in campaign.events())


@pytest.mark.parametrize(
    "usage",
    [
        *({}, None, [], {"prompt_tokens": None, "completion_tokens": 5}),
        *({"prompt_tokens": -(10**9), "completion_tokens": -(10**9)}, {"prompt_tokens": 10**30}),
    ],
)
def test_counts_that_make_no_sense_are_estimated(
    campaign: StoredCampaign, llm: ScriptedLlm, usage: object
) -> None:
    answer = {"choices": [{"message": {"content": "x" * 400}}], "usage": usage}
    llm.raw = lambda _: json.dumps(answer).encode()
    run = begun(campaign, llm, "uncounted")

    assert converse(run) == ["x" * 400] * 2

    assert 200 < run.budget.tokens < 600
