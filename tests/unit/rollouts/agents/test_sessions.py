"""What a session records of any agent, and how it ends."""

import asyncio
import signal
from collections.abc import Sequence

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agent_sessions import AgentSequence
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.inference.token_engine.base import EngineFailed, SampledTokens, TurnSampling
from services.rollouts.activity import Activity, Phase
from services.rollouts.agents.failed import AgentFailed
from tests.support.rollouts import ScriptedEngine, saying
from tests.unit.rollouts.agents.agents import (
    CALL,
    TOOL,
    asked,
    branching,
    play_by,
    said,
    text,
    user,
)


class WatchedActivity(Activity):
    """Keeps the phases of a rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[Phase | None] = []

    def change(self, before: Phase | None, after: Phase | None) -> None:
        super().change(before, after)
        if before is not after:
            self.phases.append(after)


def test_a_session_generates_while_the_policy_has_one_of_its_requests() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        first = await said(session, [user("hi")])
        await asyncio.gather(
            said(session, [user("hi"), first, user("left")]),
            said(session, [user("hi"), first, user("right")]),
        )
        return {}

    class Together(ScriptedEngine):
        """Answers the second and third turn when it has both."""

        async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
            if activity.phases.count(Phase.GENERATE) == 2:
                await both.wait()
            return await super().generate(token_ids, sampling)

    both = asyncio.Barrier(2)
    activity = WatchedActivity()
    play_by(plays, Together(lambda _: "so<end>"), activity=activity)

    at, out = Phase.GENERATE, Phase.TOOLS
    assert activity.phases == [out, at, out, at, out, None]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b"])), min_size=1, max_size=8))
def test_no_token_is_made_a_second_time(steps: list[tuple[int, str]]) -> None:
    """Each step continues one of the conversations so far, however they branch."""
    engine = ScriptedEngine(lambda before: f"  {len(before)} <end>")
    played = play_by(branching(steps), engine)

    assert played.finish_reason is FinishReason.ANSWERED, played.error
    assert played.agent is not None
    recorded: list[Trajectory | AgentSequence] = [played, *played.agent.other_sequences]
    whole = [text(each.prompt_token_ids + each.response_token_ids) for each in recorded]
    for before, _ in engine.asked:  # what the engine read is the beginning of what is recorded
        assert any(each.startswith(before) for each in whole)
    assert played.agent.model_calls == len(steps) == len(engine.asked)
    assert sum(sum(each.response_mask) for each in recorded) == sum(
        len(f"  {len(before)} ") + 1 for before, _ in engine.asked
    )


def test_equal_seeds_sample_equal_turns() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        await said(session, [user("hi")], temperature=0.3, seed=7)
        await said(session, [user("hi")])
        return {}

    def seeds() -> tuple[list[int | None], Trajectory]:
        engine = saying("one<end>", "two<end>")
        played = play_by(plays, engine, seed=5)
        return [sampling.seed for _, sampling in engine.asked], played

    (first, played), (second, _) = seeds(), seeds()

    assert first == second
    assert len(set(first)) == 2
    assert played.agent is not None
    assert played.agent.notes == [
        "temperature has no effect: the job's sampling decides",
        "seed has no effect: the job's sampling decides",
    ]


@pytest.mark.parametrize(
    ("error", "reason", "cause"),
    [
        (
            AgentFailed("exit status 1", InfrastructureCause.KILLED),
            FinishReason.AGENT_FAILED,
            InfrastructureCause.KILLED,
        ),
        (AgentFailed("too slow", None), FinishReason.TIMED_OUT, None),
    ],
)
def test_a_failed_agent_is_played_again_and_a_slow_one_counts(
    error: AgentFailed, reason: FinishReason, cause: InfrastructureCause | None
) -> None:
    async def plays(session: JsonObject) -> JsonObject:
        await said(session, [user("hi")])
        raise error

    played = play_by(plays, ScriptedEngine(lambda _: "one<end>"))

    assert played.finish_reason is reason
    assert (played.left_out.cause if played.left_out else None) is cause
    assert played.plays == (3 if cause else 1)
    assert played.infrastructure_failures == ({"agent": 3} if cause else {})
    assert text(played.response_token_ids) == "one<end>"


def test_an_agent_that_asks_nothing_is_left_out() -> None:
    async def plays(_session: JsonObject) -> JsonObject:
        return {"reward": 1}

    played = play_by(plays, saying())

    assert played.finish_reason is FinishReason.AGENT_FAILED
    assert played.left_out is not None


def test_an_engine_that_fails_is_the_cause_whatever_the_agent_makes_of_it() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        response = await asked(session, [user("hi")])
        assert response.status_code == 502
        return {"reward": 0}

    played = play_by(plays, ScriptedEngine(lambda _: EngineFailed("gone")))

    assert played.finish_reason is FinishReason.ENGINE_FAILED
    assert played.left_out is not None
    assert played.left_out.source == "engine"


def test_a_failure_that_the_client_repairs_by_asking_again_loses_nothing() -> None:
    script: list[str | EngineFailed] = [EngineFailed("gone"), "one<end>"]
    answers = iter(script)

    async def plays(session: JsonObject) -> JsonObject:
        assert (await asked(session, [user("hi")])).status_code == 502
        await said(session, [user("hi")])
        return {"reward": 1}

    played = play_by(plays, ScriptedEngine(lambda _: next(answers)))

    assert (played.finish_reason, played.left_out) == (FinishReason.ANSWERED, None)
    assert played.infrastructure_failures == {"engine": 1}


def test_the_signals_of_the_process_stay_its_own() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def plays(session: JsonObject) -> JsonObject:
        await said(session, [user("hi")])
        assert signal.getsignal(signal.SIGTERM) is before
        return {}

    assert play_by(plays, saying("one<end>")).finish_reason is FinishReason.ANSWERED


def test_limits_are_told_by_code_and_end_as_length() -> None:
    answers: list[tuple[int, str]] = []

    async def plays(session: JsonObject) -> JsonObject:
        history: list[JsonObject] = [user("hi")]
        for _ in range(3):
            response = await asked(session, history)
            if response.status_code != 200:
                answers.append((response.status_code, response.json()["error"]["code"]))
                continue
            history += [response.json()["choices"][0]["message"], user("go on")]
        return {}

    full = play_by(plays, ScriptedEngine(lambda _: "one<end>"), context_length=30)
    spent = play_by(plays, ScriptedEngine(lambda _: "one<end>"), max_model_calls=2)

    assert answers == [
        (400, "context_length_exceeded"),
        (400, "context_length_exceeded"),
        (400, "max_model_calls"),
    ]
    assert full.finish_reason is FinishReason.LENGTH
    assert spent.finish_reason is FinishReason.ANSWERED


def test_a_key_is_of_one_session_and_ends_with_it() -> None:
    kept: JsonObject = {}

    async def plays(session: JsonObject) -> JsonObject:
        wrong = await asked({**session, "api_key": "sk-wrong"}, [user("hi")])
        assert wrong.status_code == 401
        kept.update(session)
        await said(session, [user("hi")])
        async with httpx.AsyncClient(headers={"x-api-key": session["api_key"]}) as http:
            rewarded = await http.post(f"{session['base_url']}/reward", json={"reward": 0.25})
            refused = await http.post(f"{session['base_url']}/reward", json={"reward": "much"})
        assert (rewarded.status_code, refused.status_code) == (200, 400)
        return {}

    played = play_by(plays, saying("one<end>"))

    assert played.agent is not None
    assert played.agent.reward == 0.25
    with pytest.raises(httpx.ConnectError):
        asyncio.run(asked(kept, [user("hi")]))


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("chat/completions", {"messages": []}, "messages"),
        ("chat/completions", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ("chat/completions", {"messages": [{"role": "robot"}]}, "messages[0].role"),
        ("chat/completions", {"messages": [user("hi")], "n": 2}, "n"),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0]",
        ),
        ("responses", {"input": "hi", "previous_response_id": "resp_1"}, "previous_response_id"),
        ("responses", {"input": [{"type": "web_search_call"}]}, "input[0].type"),
        ("messages", {"messages": [user("hi")], "max_tokens": 0}, "max_tokens"),
        (
            "messages",
            {"messages": [{"role": "assistant", "content": [{"type": "image"}]}]},
            "messages[0].content[0]",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(
    path: str, body: JsonObject, param: str
) -> None:
    async def plays(session: JsonObject) -> JsonObject:
        headers = {"authorization": f"Bearer {session['api_key']}"}
        async with httpx.AsyncClient(headers=headers) as http:
            refused = await http.post(f"{session['base_url']}/{path}", json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
        await said(session, [user("hi")])
        return {}

    assert play_by(plays, saying("one<end>")).finish_reason is FinishReason.ANSWERED


def test_a_call_that_nobody_answers_was_not_run() -> None:
    async def plays(session: JsonObject) -> JsonObject:
        message = await said(session, [user("hi")], tools=[TOOL])
        assert message["tool_calls"][0]["function"]["name"] == "add"
        return {}

    played = play_by(plays, saying(CALL))

    assert [call.outcome.value for call in played.turns[0].calls] == ["dropped"]
