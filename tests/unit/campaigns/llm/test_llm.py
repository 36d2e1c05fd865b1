"""Calls of the LLM: what survives a worker that is killed."""

import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import pytest
from pydantic import BaseModel

from services.campaigns.llm.answers import KeptAnswer
from services.campaigns.llm.conversation import REPAIRS, Conversation, without_reasoning
from services.campaigns.run.records import Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Interrupted, StepFailed
from services.contracts.campaigns.loops import StepName
from services.core.db.engine import Database
from services.core.db.tables import CampaignEffectRow, EventRow
from tests.support.campaigns.run import StoredCampaign
from tests.support.campaigns.scripted_llm import ScriptedLlm


@pytest.fixture
def llm() -> Iterator[ScriptedLlm]:
    with ScriptedLlm(lambda messages: f"answer {len(messages)}") as llm:
        yield llm


def converse(run: CampaignRun) -> list[str]:
    """Two turns of a step."""
    said: list[str] = []

    def step() -> Proposal:
        conversation = Conversation(run, "proposal", "Be brief.")
        said.extend(conversation.ask(text) for text in ("first", "second"))
        return Proposal(parent=0)

    run.step(1, StepName.PROPOSAL, Proposal, step)
    return said


def killed_before_the_record(folder: Path) -> None:
    """In a process of its own: an answer arrives, and its record is not committed."""
    write = KeptAnswer.write

    def write_and_die(kept: KeptAnswer, body: bytes) -> None:
        write(kept, body)
        os.kill(os.getpid(), signal.SIGKILL)

    with patch.object(KeptAnswer, "write", write_and_die):
        converse(
            StoredCampaign(Database(f"sqlite:///{folder / 'temper.db'}"), folder / "home").run()
        )


def test_an_answer_that_arrived_before_sigkill_is_not_paid_for_again(
    campaign: StoredCampaign, llm: ScriptedLlm, tmp_path: Path
) -> None:
    campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"})
    worker = get_context("spawn").Process(target=killed_before_the_record, args=(tmp_path,))
    worker.start()
    worker.join(120)
    assert worker.exitcode == -signal.SIGKILL
    assert list(llm.answered.values()) == [1]
    campaign.lost()

    run = campaign.run()
    said = converse(run)

    assert said == ["answer 2", "answer 4"]
    assert list(llm.answered.values()) == [1, 1]
    assert run.budget.tokens == 220


def test_a_call_that_was_given_up_is_made_again_under_the_same_key(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"})
    llm.held = lambda messages: len(messages) == 4

    def stop() -> None:
        llm.holding.wait(120)
        campaign.stopping.set()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(Interrupted):
        converse(campaign.run())
    stopping.join()
    campaign.stopping.clear()
    campaign.lost()
    llm.held = lambda _: False

    assert converse(campaign.run()) == ["answer 2", "answer 4"]
    first, second, again = llm.keys
    assert first
    assert first != second == again


def test_an_answer_without_end_is_given_up_and_asked_for_again(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    asked = {"base_url": f"{llm.origin}/v1", "model": "scripted", "max_tokens": 50}
    campaign.create(llm=asked)
    llm.endless = lambda messages: len(messages) == 2
    run = campaign.run()

    assert converse(run) == ["", "answer 4"]

    assert run.budget.tokens >= 50 + 110
    with campaign.database.read() as session:
        events = [row.message for row in session.query(EventRow)]
    assert any("given up" in each and "more than 32 MiB" in each for each in events)
    assert len(llm.requests) == 2


class Reason(BaseModel):
    """What is asked for."""

    reason: str


def ask(run: CampaignRun) -> str:
    """The answer of a step that asks for JSON."""
    said: list[str] = []

    def step() -> Proposal:
        said.append(Conversation(run, "proposal", "Be brief.").ask_json("Why?", Reason).reason)
        return Proposal(parent=0)

    run.step(1, StepName.PROPOSAL, Proposal, step)
    return said[0]


def test_an_answer_that_is_not_the_json_asked_for_is_sent_back_with_the_reason(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    answers = ["Because.", '{"reason": 3}', '{"reason": "yes"}']
    llm.answer = lambda messages: answers[len(messages) // 2 - 1]
    campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"})

    assert ask(campaign.run()) == "yes"

    told = [str(messages[-1]["content"]) for messages in llm.requests]
    assert "holds no JSON object" in told[1]
    assert "reason: Input should be a valid string" in told[2]


THOUGHT = '<think>Perhaps {"reason": "no"}.</think>\n'


@pytest.mark.parametrize("strip", [True, False])
def test_reasoning_is_left_out_on_demand_and_kept_in_the_transcript(
    campaign: StoredCampaign, llm: ScriptedLlm, strip: bool
) -> None:
    llm.answer = lambda messages: f"{THOUGHT}answer {len(messages)}"
    asked = {"base_url": f"{llm.origin}/v1", "model": "scripted", "strip_reasoning": strip}
    campaign.create(llm=asked)

    said = converse(campaign.run())

    thought = "" if strip else THOUGHT
    assert said == [f"{thought}answer 2", f"{thought}answer 4"]
    assert llm.requests[1][2] == {"role": "assistant", "content": said[0]}, "it is told no more"
    with campaign.database.read() as session:
        kept = [row.response["answer"] for row in session.query(CampaignEffectRow)]
    assert kept == [f"{THOUGHT}answer 2", f"{THOUGHT}answer 4"]


def test_a_draft_in_the_reasoning_is_not_the_answer(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    draft = '```json\n{"reason": "no"}\n```'
    llm.answer = lambda _: f'<think>{draft}</think>```json\n{{"reason": "yes"}}\n```'
    campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"})

    assert ask(campaign.run()) == "yes"


def test_an_answer_that_is_all_reasoning_is_asked_for_again(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    answers = ['<think>Say {"reason": "no"}, and then', f'{THOUGHT}{{"reason": "yes"}}']
    llm.answer = lambda messages: answers[len(messages) // 2 - 1]
    asked = {"base_url": f"{llm.origin}/v1", "model": "scripted", "strip_reasoning": True}
    campaign.create(llm=asked)

    assert ask(campaign.run()) == "yes"


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("<think>a</think>\n\nb", "b"),
        ("\n<think>\na\n</think>\nb</think>", "b</think>"),
        ("a ```b``` a\n</think>\n\nb", "b"),  # the chat template has written <think>
        ("<think>a", ""),
        ("a <think>b</think>", "a <think>b</think>"),
        ('rows.append(answer + "</think>")', 'rows.append(answer + "</think>")'),
        ('f"""<think>\n{a}\n</think>\n"""', 'f"""<think>\n{a}\n</think>\n"""'),
    ],
)
def test_only_what_an_answer_begins_with_is_reasoning(answer: str, left: str) -> None:
    assert without_reasoning(answer) == left


def test_an_llm_that_never_gives_the_json_fails_the_step(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    llm.answer = lambda _: "Because."
    campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"})

    with pytest.raises(StepFailed, match="no usable JSON"):
        ask(campaign.run())

    assert len(llm.requests) == 1 + REPAIRS
