"""Answers of the LLM that campaigns share: what is found again, and what is never kept."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from services.api.campaigns.history import rewind_campaign
from services.campaigns.llm.answers import FILE, AnswerCache, CachedAnswer
from services.campaigns.llm.conversation import Conversation
from services.campaigns.log_folder import PAGE
from services.campaigns.run.records import Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.campaigns import RewindCampaign
from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobStatus
from services.core.db.tables import CampaignEffectRow, CampaignStepRow
from services.jobs.claims import check_claim
from services.jobs.store import move_job
from tests.support.campaigns.run import StoredCampaign
from tests.support.campaigns.scripted_llm import ScriptedLlm

SHARED = {"read": True, "write": True}
SECRET = "the-endpoint's-key"


class Reason(BaseModel):
    reason: str


@pytest.fixture
def llm() -> Iterator[ScriptedLlm]:
    """Never answers the same twice."""
    with ScriptedLlm(lambda _: "") as llm:
        llm.answer = lambda _: f'{{"reason": "number {len(llm.requests)}"}}'
        yield llm


def begun(
    campaign: StoredCampaign,
    name: str,
    llm: ScriptedLlm,
    changed: dict[str, Any] | None = None,
    **request: Any,
) -> CampaignRun:
    """A further campaign in the same home, ``changed`` in what it says of its LLM."""
    other = StoredCampaign(campaign.database, campaign.settings.home)
    other.id, other.settings = name, campaign.settings
    own = {"base_url": f"{llm.origin}/v1", "model": "scripted", **(changed or {})}
    other.create(**{"llm": own, "answer_cache": SHARED, **request})
    return other.run()


def ask(run: CampaignRun, loop: int = 1) -> str:
    """What the LLM says in a proposal, in JSON."""
    said: list[str] = []

    def step() -> Proposal:
        said.append(Conversation(run, "proposal", "Be brief.").ask_json("Why?", Reason).reason)
        return Proposal(parent=0)

    run.step(loop, StepName.PROPOSAL, Proposal, step)
    return said[0]


def test_another_campaign_gets_an_answer_that_was_paid_for(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    first, second = (begun(campaign, name, llm) for name in ("first", "second"))

    assert ask(first) == ask(second) == "number 1"

    assert len(llm.requests) == 1
    assert (first.budget.tokens, second.budget.tokens) == (110, 0)
    with campaign.database.read() as session:
        found = session.query(CampaignEffectRow).filter_by(campaign_id="second").one()
        assert found.response["saved_tokens"] == 110
    (page,) = second.log.path.glob(f"Loop_1/*/{PAGE}")
    assert "from the cache, 110 tokens saved" in page.read_text()


@pytest.mark.parametrize(
    ("first", "second"), [({}, SHARED), (SHARED, {}), ({"read": True}, SHARED)]
)
def test_answers_are_shared_by_those_that_want_it(
    campaign: StoredCampaign, llm: ScriptedLlm, first: dict[str, bool], second: dict[str, bool]
) -> None:
    ask(begun(campaign, "first", llm, answer_cache=first))

    assert ask(begun(campaign, "second", llm, answer_cache=second)) == "number 2"


@pytest.mark.parametrize(
    "changed",
    [{"model": "other"}, {"temperature": 0.5}, {"max_tokens": 99}, {"presence_penalty": 1.0}],
)
def test_another_model_or_sampling_is_another_question(
    campaign: StoredCampaign, llm: ScriptedLlm, changed: dict[str, Any]
) -> None:
    ask(begun(campaign, "first", llm))

    assert ask(begun(campaign, "second", llm, changed)) == "number 2"


def test_another_endpoint_is_another_question(campaign: StoredCampaign, llm: ScriptedLlm) -> None:
    ask(begun(campaign, "first", llm))

    with ScriptedLlm(lambda _: '{"reason": "mine"}') as other:
        assert ask(begun(campaign, "second", other)) == "mine"


@pytest.mark.parametrize("endless", [True, False])
def test_an_answer_that_could_not_be_used_is_not_given_to_others(
    campaign: StoredCampaign, llm: ScriptedLlm, endless: bool
) -> None:
    good = llm.answer
    llm.answer = lambda messages: "Because." if len(llm.requests) == 1 else good(messages)
    llm.endless = lambda _: endless and len(llm.requests) == 1

    assert ask(begun(campaign, "first", llm)) == "number 2", "after a turn of repair"

    assert ask(begun(campaign, "second", llm)) == "number 3", "asked as if for the first time"
    assert len(llm.requests[-1]) == 2


def test_what_a_campaign_asks_again_is_given_another_answer(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    first = begun(campaign, "first", llm)
    assert [ask(first, loop) for loop in (1, 2)] == ["number 1", "number 2"]

    second = begun(campaign, "second", llm)
    assert [ask(second, loop) for loop in (1, 2, 3)] == ["number 1", "number 2", "number 3"]


def test_a_step_that_is_taken_again_after_a_rewind_is_given_another_answer(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    own = {"base_url": f"{llm.origin}/v1", "model": "scripted"}
    campaign.create(llm=own, answer_cache=SHARED)
    campaign.step(0, StepName.BASE, {})
    claim = campaign.claim()
    assert ask(campaign.run_of(claim)) == "number 1"
    with campaign.database.write() as session:
        move_job(session, check_claim(session, claim), JobStatus.QUEUED, "It waits")
    with campaign.database.write() as session:
        rewind_campaign(session, campaign.id, RewindCampaign(loop=1))

    assert ask(campaign.run()) == "number 2"


def test_a_step_that_was_interrupted_asks_the_same_again(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    ask(begun(campaign, "first", llm))
    campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"}, answer_cache=SHARED)
    ask(campaign.run())
    with campaign.database.write() as session:  # as if it had been killed before the record
        session.query(CampaignEffectRow).filter_by(campaign_id=campaign.id).delete()
        session.query(CampaignStepRow).filter_by(campaign_id=campaign.id).delete()
    campaign.lost()

    assert ask(campaign.run()) == "number 1"


def test_an_answer_that_repeats_a_key_is_not_kept(
    campaign: StoredCampaign, llm: ScriptedLlm
) -> None:
    llm.answer = lambda _: f'{{"reason": "{SECRET}"}}'
    campaign.settings = CampaignSettings(
        home=campaign.settings.home, endpoint_keys={llm.origin: SECRET}
    )

    ask(begun(campaign, "first", llm))
    ask(begun(campaign, "second", llm))

    assert len(llm.requests) == 2
    files = list(campaign.settings.home.glob(f"{FILE}*"))
    assert not any(SECRET.encode() in file.read_bytes() for file in files)


def cache(
    folder: Path, most_bytes: int = 100, now: Callable[[], float] = lambda: 0.0
) -> AnswerCache:
    return AnswerCache(folder / FILE, most_bytes, 10.0, now)


def test_the_oldest_answers_leave_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    clock = iter(range(100))
    held = cache(tmp_path, 100, lambda: next(clock) * 0.01)
    for number in range(5):
        held.keep(bytes([number]), CachedAnswer(f"{number}" * 30, 1, 1))

    assert [held.find(bytes([number])) is not None for number in range(5)] == [0, 0, 1, 1, 1]
    held.keep(b"large", CachedAnswer("x" * 101, 1, 1))
    assert held.find(b"large") is None
    assert held.find(bytes([4])) is not None


def test_answers_leave_with_age(tmp_path: Path) -> None:
    cache(tmp_path).keep(b"q", CachedAnswer("a", 2, 3))

    assert cache(tmp_path, now=lambda: 9.0).find(b"q") == CachedAnswer("a", 2, 3)
    late = cache(tmp_path, now=lambda: 11.0)
    assert late.find(b"q") is None
    late.keep(b"other", CachedAnswer("b", 1, 1))
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("SELECT answer FROM answers").fetchall() == [("b",)]
    database.close()


def test_a_broken_file_is_as_good_as_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)

    cache(tmp_path).keep(b"q", CachedAnswer("a", 1, 1))

    assert cache(tmp_path).find(b"q") is None
