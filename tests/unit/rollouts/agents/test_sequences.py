"""Which of a session's turns are the agent's, and are trained on."""

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from services.contracts.base import JsonObject
from services.contracts.rollouts.agent_sessions import AgentSequence, SequenceRole
from services.contracts.rollouts.trajectories import Trajectory
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.trainer.rl.groups import branches
from tests.support.rollouts import ScriptedEngine, saying
from tests.unit.rollouts.agents.agents import TOOL, branching, play_by, said, text, user


def test_an_answer_that_is_asked_for_again_is_discarded_and_kept() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        await said(session, [user("hi")])
        again = await said(session, [user("hi")])
        await said(session, [user("hi"), again, user("go on")])
        return {}

    played = play_by(plays, saying("one<end>", "two<end>", "three<end>"))

    assert text(played.response_token_ids) == "two<end>user:go on<end>assistant:three<end>"
    assert played.agent is not None
    [other] = played.agent.other_sequences
    assert (other.role, text(other.response_token_ids)) == (SequenceRole.DISCARDED, "one<end>")


def test_a_side_call_without_tools_is_auxiliary() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        await said(session, [user("hi")], tools=[TOOL])
        await said(session, [user("name this conversation")])
        return {}

    played = play_by(plays, saying("done<end>", "Greeting<end>"))

    assert text(played.response_token_ids) == "done<end>"
    assert played.agent is not None
    [other] = played.agent.other_sequences
    assert (other.role, text(other.response_token_ids)) == (SequenceRole.AUXILIARY, "Greeting<end>")


def test_a_fork_shares_its_first_turn_which_counts_once() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        first = await said(session, [user("hi")])
        await said(session, [user("hi"), first, user("left")])
        await said(session, [user("hi"), first, user("right")])
        return {}

    played = play_by(plays, saying("one<end>", "two<end>", "three<end>"))

    assert played.agent is not None
    [other] = played.agent.other_sequences
    assert other.role is SequenceRole.AGENT
    assert [turn.text for turn in played.turns] == ["one<end>", "three<end>"]
    assert sum(played.response_mask) == len("one") + len("three") + 2
    assert sum(other.response_mask) == len("two") + 1  # its first turn is the trajectory's own


def test_a_rewritten_conversation_begins_a_sequence_of_its_own() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        first = await said(session, [user("hi")])
        changed = {**first, "content": "what the model never said"}
        await said(session, [user("hi"), changed, user("go on")])
        return {}

    played = play_by(plays, saying("one<end>", "two<end>"))

    prompt = "user:hi<end>assistant:what the model never said<end>user:go on<end>assistant:"
    assert (text(played.prompt_token_ids), text(played.response_token_ids)) == (prompt, "two<end>")


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"])), min_size=1, max_size=8))
def test_each_turn_of_the_agents_is_trained_once(steps: list[tuple[int, str]]) -> None:
    """Whatever it asks again, and in which order."""
    engine = ScriptedEngine(lambda _: f"{len(engine.asked)}<end>")
    trained: list[str] = []
    sampled: set[str] = set()
    played = play_by(branching(steps), engine)
    sequences: list[Trajectory | AgentSequence] = [played, *branches(played)]
    for each in sequences:
        before = text(each.prompt_token_ids)
        for token, mask, version in zip(
            each.response_token_ids, each.response_mask, each.policy_versions, strict=True
        ):
            before += text([token])
            sampled |= {before} if version >= 0 else set()
            trained += [before] * mask
    assert sorted(trained) == sorted(sampled)


class HeldEngine:
    """Says ``late`` when it is ``released``, and then the other turns at once."""

    def __init__(self, late: str, *others: str) -> None:
        self.begun, self.released, self.cancelled = (asyncio.Event() for _ in range(3))
        self._late = late
        self._others = saying(*others)

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        if self.begun.is_set():
            return await self._others.generate(token_ids, sampling)
        self.begun.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await saying(self._late).generate(token_ids, sampling)


def test_an_answer_that_comes_after_that_to_the_same_request_is_discarded() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        first = asyncio.create_task(said(session, [user("hi")]))
        await engine.begun.wait()
        again = await said(session, [user("hi")])
        await said(session, [user("hi"), again, user("go on")])
        engine.released.set()
        await first
        return {"reward": 1.0}

    engine = HeldEngine("late<end>", "right<end>", "done<end>")
    played = play_by(plays, engine)

    assert text(played.response_token_ids) == "right<end>user:go on<end>assistant:done<end>"
    assert played.agent is not None
    [other] = played.agent.other_sequences
    assert (other.role, text(other.response_token_ids)) == (SequenceRole.DISCARDED, "late<end>")


def test_an_answer_whose_client_has_gone_is_no_turn() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        first = asyncio.create_task(said(session, [user("a long question")]))
        await engine.begun.wait()
        first.cancel()
        async with asyncio.timeout(30):
            await engine.cancelled.wait()
        await said(session, [user("a short one")])
        return {"reward": 1.0}

    engine = HeldEngine("late<end>", "right<end>")
    played = play_by(plays, engine)

    assert text(played.response_token_ids) == "right<end>"
    assert played.agent is not None
    assert played.agent.other_sequences == []
