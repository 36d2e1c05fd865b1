"""Failures within a rollout are recorded in its trajectory."""

import asyncio
import logging

import pytest

from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason
from services.inference.token_engine.base import EngineFailed, SampledTokens
from services.rollouts.loop import MAX_PLAYS
from tests.support.rollouts import (
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    ToolBroke,
    ToolDown,
    hermes,
    question,
    saying,
    tokens,
)
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.rollouts.loop.conversation import play, rollouts

CALL = hermes("echo", text="a") + "<end>"


async def broken(text: str = "") -> str:
    raise ToolBroke("connection reset")


def test_a_rollout_continues_after_a_failed_call() -> None:
    trajectory = play(CALL, "never mind<end>", tools=FunctionToolbox({"echo": broken}))
    assert trajectory.finish_reason is FinishReason.ANSWERED
    (call,) = trajectory.turns[0].calls
    assert (call.outcome, call.error, call.attempts) == (CallOutcome.FAILED, "connection reset", 3)
    assert (call.reply, call.shown) == (None, "Error: connection reset")
    assert trajectory.failed_calls == 1


def test_an_unknown_tool_is_reported_to_the_model() -> None:
    trajectory = play(hermes("nope") + "<end>", "ok<end>")
    assert trajectory.turns[0].calls[0].outcome is CallOutcome.UNKNOWN_TOOL
    assert trajectory.turns[0].calls[0].shown == "Error: there is no tool nope"


def test_on_tool_error_stop_ends_the_conversation_with_the_reason() -> None:
    trajectory = play(CALL, tools=FunctionToolbox({"echo": broken}), on_tool_error="stop")
    assert trajectory.finish_reason is FinishReason.TOOL_ERROR
    assert trajectory.error == "echo: connection reset"
    assert trajectory.response_token_ids == tokens(CALL)
    assert trajectory.turns[0].calls[0].shown is None


def test_on_tool_error_stop_continues_after_successful_calls() -> None:
    assert play(CALL, "ok<end>", on_tool_error="stop").finish_reason is FinishReason.ANSWERED


async def down(text: str = "") -> str:
    raise ToolDown("refused")


@pytest.mark.parametrize("on_tool_error", ["continue", "stop"])
def test_a_rollout_whose_tool_stays_unavailable_is_left_out(on_tool_error: str) -> None:
    tools = FunctionToolbox({"echo": down})
    trajectory = play(CALL, CALL, CALL, tools=tools, on_tool_error=on_tool_error)
    assert trajectory.finish_reason is FinishReason.TOOL_UNAVAILABLE
    assert trajectory.finish_reason.is_failure
    assert trajectory.left_out is not None
    assert trajectory.left_out.source == "echo"
    assert trajectory.left_out.cause is InfrastructureCause.REFUSED
    assert trajectory.error == "echo: refused"
    assert (trajectory.plays, trajectory.infrastructure_failures) == (MAX_PLAYS, {"echo": 3})


def test_a_rollout_is_played_again_from_its_prompt_with_the_same_seeds() -> None:
    failures = iter([True, False])

    async def flaky(text: str) -> str:
        if next(failures):
            raise ToolDown("reset")
        return text

    engine = saying(CALL, CALL, "ok<end>")
    player = rollouts(engine, FunctionToolbox({"echo": flaky}))
    trajectory = run_in_virtual_time(player.play(question(), seed=7))
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert trajectory.left_out is None
    assert (trajectory.plays, trajectory.infrastructure_failures) == (2, {"echo": 1})
    (first, again, _) = engine.asked
    assert first == again
    assert trajectory.tool_calls == 1


def test_an_unavailable_engine_leaves_the_rollout_out() -> None:
    engine = ScriptedEngine(lambda _: EngineFailed("gone"))
    trajectory = run_in_virtual_time(rollouts(engine).play(question()))
    assert trajectory.left_out is not None
    assert trajectory.left_out.source == "engine"
    assert trajectory.infrastructure_failures == {"engine": 1}
    assert len(engine.asked) == 1


def test_an_engine_failure_keeps_earlier_tokens() -> None:
    engine = ScriptedEngine(lambda context: EngineFailed("gone") if "tool:" in context else CALL)
    trajectory = run_in_virtual_time(rollouts(engine).play(question()))
    assert (trajectory.finish_reason, trajectory.error) == (FinishReason.ENGINE_FAILED, "gone")
    assert trajectory.finish_reason.is_failure
    assert trajectory.tool_calls == 1
    assert trajectory.sampled_tokens == len(tokens(CALL))


@pytest.mark.parametrize(
    ("log_probs", "versions"),
    [
        ((-0.1,), (0, 0)),
        ((-0.1, -0.2), (0,)),
        ((-0.1, float("nan")), (0, 0)),
        ((-0.1, float("-inf")), (0, 0)),
    ],
)
def test_invalid_sampled_tokens_fail_the_rollout(
    log_probs: tuple[float, ...], versions: tuple[int, ...]
) -> None:
    class InvalidTokensEngine(ScriptedEngine):
        async def generate(self, token_ids, sampling):  # type: ignore[no-untyped-def]  # as in its base class
            return SampledTokens((65, 0), log_probs, versions, "stop")

    trajectory = run_in_virtual_time(rollouts(InvalidTokensEngine(lambda _: "")).play(question()))
    assert trajectory.finish_reason is FinishReason.ENGINE_FAILED
    assert trajectory.error


def test_a_prompt_refused_by_the_template_is_not_sampled() -> None:
    prompt = question()
    prompt.messages[0]["role"] = "refused"
    trajectory = play(prompt=prompt)
    assert trajectory.finish_reason is FinishReason.PROMPT_REFUSED
    assert trajectory.error == "the template knows no role refused"


def test_a_prompt_that_fills_the_context_is_not_sampled() -> None:
    engine = ScriptedEngine(lambda _: "a<end>")
    prompt = CharacterChat().prompt([{"role": "user", "content": "q"}], [])
    player = rollouts(engine, context_length=len(prompt), multi_turn_enable=False)
    trajectory = run_in_virtual_time(player.play(question()))
    assert trajectory.finish_reason is FinishReason.PROMPT_REFUSED
    assert str(len(prompt)) in (trajectory.error or "")
    assert engine.asked == []


def test_an_internal_error_is_recorded_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fault(text: str) -> str:
        raise ZeroDivisionError("x")

    with caplog.at_level(logging.ERROR):
        trajectory = play(CALL, tools=FunctionToolbox({"echo": fault}))
    assert trajectory.finish_reason is FinishReason.INTERNAL_ERROR
    assert "ZeroDivisionError" in (trajectory.error or "")
    assert caplog.records


def test_a_cancelled_rollout_cancels_its_pending_work() -> None:
    stopped: list[str] = []

    async def endless(text: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(text)
            raise
        return ""

    async def cancel() -> None:
        tools = FunctionToolbox({"echo": endless})
        player = rollouts(ScriptedEngine(lambda _: CALL), tools)
        playing = asyncio.create_task(player.play(question()))
        await asyncio.sleep(1)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing

    run_in_virtual_time(cancel())
    assert stopped == ["a"]
