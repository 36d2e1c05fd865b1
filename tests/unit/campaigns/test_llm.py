"""Calls of the LLM: what survives a worker that is killed."""

import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import pytest

from services.campaigns.kept_answer import KeptAnswer
from services.campaigns.llm import Conversation
from services.campaigns.records import Proposal
from services.campaigns.run import CampaignRun
from services.campaigns.signals import Interrupted
from services.contracts.campaigns import StepName
from services.core.db.engine import Database
from tests.support.campaign_run import StoredCampaign
from tests.support.scripted_llm import ScriptedLlm


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
