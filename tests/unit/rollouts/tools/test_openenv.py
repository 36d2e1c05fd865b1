"""Rollouts in OpenEnv environments: sessions, steps, rewards, and whose failure is what."""

import asyncio
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest, JobFailed, PermissionDenied
from services.contracts.failures import InfrastructureCause as Cause
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling, Tool
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.loop import MAX_PLAYS, Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.tools import Toolbox, check_tools, open_toolbox
from services.rollouts.tools.base import EpisodeStart
from services.rollouts.tools.health import check_tools_respond
from tests.support.engines.environment_server import EnvironmentServer
from tests.support.rollouts import END_TEXT, CharacterChat, ScriptedEngine, hermes, question
from tests.support.waiting import wait_for
from tests.unit.rollouts.tools.toolboxes import function


def environment(server: EnvironmentServer, *, path: str = "", **config: Any) -> Tool:
    return Tool(class_name="openenv", config={"url": server.origin + path, **config})


def playing(toolbox: Toolbox, *turns: str) -> Rollouts:
    """A model that says these turns in every conversation."""

    def script(text: str) -> str:
        said = text.count("assistant:") - 1
        return turns[said] + END_TEXT if said < len(turns) else END_TEXT

    settings = MultiTurn(multi_turn_enable=True, max_parallel_calls=4)
    model = TokenModel(
        ScriptedEngine(script), CharacterChat(), settings, RolloutSampling(max_tokens=4000)
    )
    return Rollouts(model, toolbox, settings)


def played(
    tool: Tool, *turns: str, extra: dict[str, Any] | None = None, count: int = 1
) -> list[Trajectory]:
    async def work() -> list[Trajectory]:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            rollouts = playing(toolbox, *turns)
            samples = [
                rollouts.play(question(**(extra or {})), sample_index=each, seed=3)
                for each in range(count)
            ]
            return list(await asyncio.gather(*samples))

    return asyncio.run(work())


def test_a_rollout_is_one_session_that_ends_with_it() -> None:
    with EnvironmentServer() as server:
        tool = environment(server, reset={"level": 2}, reset_fields=["start", "absent"])
        first, second = played(tool, hermes("add", by=3), "four", extra={"start": 4}, count=2)

        wait_for(lambda: server.sessions == 0, "the end of all sessions")
        # Beside the one that told the tools.
        assert (server.opened, server.goodbyes) == (3, 3)

    assert server.resets[0] == server.resets[1]
    assert server.resets[0] == {**server.resets[0], "level": 2, "start": 4}
    assert "absent" not in server.resets[0]
    (call,) = first.turns[0].calls
    assert (call.shown, call.outcome) == ("the total is 7", CallOutcome.ANSWERED)
    assert first.finish_reason is second.finish_reason is FinishReason.ANSWERED
    (record,) = first.environments
    assert (record.rewards, record.done) == ([3.0], False)
    assert first.tools[0]["function"]["name"] == "add"


def test_the_environment_ends_the_rollout() -> None:
    with EnvironmentServer() as server:
        (one,) = played(environment(server), hermes("add", by=6), hermes("add", by=6), "never said")

    assert one.finish_reason is FinishReason.ENVIRONMENT_DONE
    assert not one.finish_reason.is_failure
    assert (one.environments[0].rewards, one.environments[0].done) == ([6.0, 6.0], True)
    assert len(one.turns) == 2
    assert one.turns[-1].calls[0].reply == "the total is 12"


def test_calls_after_the_end_are_dropped() -> None:
    with EnvironmentServer() as server:
        (one,) = played(environment(server), hermes("add", by=10) + "\n" + hermes("add", by=1))

    assert [call.outcome for call in one.turns[0].calls] == [
        CallOutcome.ANSWERED,
        CallOutcome.DROPPED,
    ]
    assert one.environments[0].rewards == [10.0]


def test_the_model_reads_what_the_reset_shows() -> None:
    with EnvironmentServer() as server:
        (one,) = played(environment(server, show_reset=True), "ok", extra={})

    assert one.messages[-1]["content"] == "q\n\ntotal 0"
    assert "total 0" in CharacterChat().text(one.prompt_token_ids)


def test_an_environment_without_tools_takes_the_arguments_as_its_action() -> None:
    with EnvironmentServer() as server:
        tool = environment(server)
        declared = tool.model_copy(update={"tool_schema": function("play", move={})})
        (one,) = played(declared, hermes("play", move=4), hermes("play", move="far"), "ok")

    right, wrong = (turn.calls[0] for turn in one.turns[:2])
    assert right.shown == '{"total": 4}'
    assert (wrong.outcome, wrong.cause) == (CallOutcome.INVALID_ARGUMENTS, None)
    assert one.environments[0].rewards == [4.0]


@pytest.mark.parametrize(
    ("name", "cause"),
    [("crash", Cause.SERVICE_ERROR), ("hang", Cause.TIMED_OUT), ("drop", Cause.RESET)],
)
def test_a_broken_environment_is_played_again_and_left_out(name: str, cause: Cause) -> None:
    with EnvironmentServer() as server:
        timeout = 0.3 if name == "hang" else 60.0
        (one,) = played(environment(server, timeout=timeout), hermes("add", by=1), hermes(name))

        wait_for(lambda: server.sessions == 0, "the end of all sessions")
        assert server.opened == 1 + MAX_PLAYS

    assert one.finish_reason is FinishReason.TOOL_UNAVAILABLE
    assert one.left_out is not None
    assert one.left_out.cause is cause
    assert one.reward is None


def test_a_session_ends_with_its_time() -> None:
    with EnvironmentServer() as server:
        (one,) = played(environment(server, session_timeout=0.3), hermes("hang"))
        wait_for(lambda: server.sessions == 0, "the end of all sessions")

    assert one.left_out is not None
    assert one.left_out.cause is Cause.TIMED_OUT
    assert "the session was open for 0.3 s" in one.left_out.message


def test_a_refused_call_is_the_models_to_read() -> None:
    with EnvironmentServer() as server:
        (one,) = played(environment(server), hermes("refuse"), "ok")

    assert one.finish_reason is FinishReason.ANSWERED
    assert one.turns[0].calls[0].shown == "Error: not now"
    assert one.left_out is None


def test_rollouts_wait_for_room_at_the_server() -> None:
    with EnvironmentServer(capacity=2) as server:
        found = played(environment(server), hermes("add", by=1), "ok", count=8)

        assert server.refused > 0
        assert server.most == 2

    assert [one.finish_reason for one in found] == [FinishReason.ANSWERED] * 8
    assert [one.plays for one in found] == [1] * 8


def test_a_server_that_stays_full_is_a_failure_of_the_infrastructure() -> None:
    async def work(tool: Tool) -> Trajectory:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            server.capacity = 0
            return await playing(toolbox, "ok").play(question())

    with EnvironmentServer() as server:
        one = asyncio.run(work(environment(server, capacity_timeout=0.1)))

    assert one.left_out is not None
    assert (one.left_out.cause, one.plays) == (Cause.OVERLOADED, MAX_PLAYS)
    assert one.infrastructure_failures == {"openenv": MAX_PLAYS}


def test_a_rollout_waits_for_a_server_that_is_started_again() -> None:
    async def work(tool: Tool) -> Trajectory:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            server.drops = 2
            return await playing(toolbox, "ok").play(question())

    with EnvironmentServer() as server:
        one = asyncio.run(work(environment(server)))

    assert (one.finish_reason, one.plays, server.drops) == (FinishReason.ANSWERED, 1, 0)


def test_our_own_limit_of_sessions_is_kept() -> None:
    with EnvironmentServer() as server:
        found = played(environment(server, num_workers=3), hermes("add", by=1), "ok", count=9)

        assert (server.most, server.refused) == (3, 0)
    assert {one.finish_reason for one in found} == {FinishReason.ANSWERED}


def test_a_cancelled_rollout_leaves_no_session() -> None:
    async def work(tool: Tool) -> None:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            rollouts = playing(toolbox, hermes("hang"))
            tasks = [asyncio.create_task(rollouts.play(question())) for _ in range(20)]
            await asyncio.to_thread(wait_for, lambda: server.sessions == 20, "20 sessions")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with EnvironmentServer() as server:
        asyncio.run(work(environment(server)))
        wait_for(lambda: server.sessions == 0, "the end of all sessions")


def test_a_session_outlives_a_long_turn_of_the_model() -> None:
    """A server takes a client for gone that answers no ping, and only who reads answers them."""

    async def work(tool: Tool) -> CallOutcome:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            async with toolbox.episode(EpisodeStart()) as episode:
                await asyncio.to_thread(wait_for, lambda: server.pongs, "an answer to a ping")
                return (await episode.call("add", {"by": 1})).outcome

    with EnvironmentServer() as server:
        assert asyncio.run(work(environment(server))) is CallOutcome.ANSWERED


def test_what_cannot_be_used_is_said_before_the_first_rollout() -> None:
    async def work(tool: Tool) -> None:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)

    def refusal(tool: Tool) -> JobFailed:
        with pytest.raises(JobFailed) as refused:
            asyncio.run(work(tool))
        return refused.value

    with EnvironmentServer() as server:
        redirecting = refusal(environment(server, path="/elsewhere"))
        missing = refusal(environment(server, path="/missing"))
    assert (redirecting.code, redirecting.param) == ("tool_unavailable", "tools[0]")
    assert "redirects" in redirecting.message
    assert "404" in missing.message


def test_only_environments_that_the_operator_allows_are_asked() -> None:
    tool = Tool(class_name="openenv", config={"url": "http://10.0.0.1:8000"})
    with pytest.raises(PermissionDenied) as denied:
        check_tools([tool], (), ())
    assert denied.value.param == "tools[0].config.url"
    unknown = Tool(class_name="openenv", config={"url": "http://10.0.0.1", "rewards": "sum"})
    with pytest.raises(InvalidRequest) as refused:
        check_tools([unknown], ("http://10.0.0.1",), ())
    assert refused.value.param == "tools[0].config.rewards"


def test_rows_have_the_environments_and_tools_of_their_source() -> None:
    def played_by_source(tools: list[Tool]) -> list[Trajectory]:
        async def work() -> list[Trajectory]:
            async with open_toolbox(tools, OperatorEnvironment()) as toolbox:
                await check_tools_respond(tools, toolbox)
                rollouts = playing(toolbox, hermes("add", by=10), "ok")
                rows: list[dict[str, Any]] = [
                    {"source": "easy"},
                    {"data_source": "hard"},
                    {"source": "plain"},
                ]
                return [await rollouts.play(question(**row)) for row in rows]

        return asyncio.run(work())

    with EnvironmentServer() as easy, EnvironmentServer() as hard:
        tools = [
            environment(easy).model_copy(update={"sources": ["easy"]}),
            environment(hard, reset={"start": -1}).model_copy(update={"sources": ["hard"]}),
        ]
        one, other, plain = played_by_source(tools)

        assert (len(easy.resets), len(hard.resets)) == (1, 1)
        with pytest.raises(JobFailed, match="'add' is already the name of another tool"):
            played_by_source([environment(easy), tools[1]])

    assert one.finish_reason is FinishReason.ENVIRONMENT_DONE
    assert one.environments[0].source.startswith(easy.origin)
    assert (other.finish_reason, other.environments[0].done) == (FinishReason.ANSWERED, False)
    assert (plain.tools, plain.environments) == ([], [])
    assert plain.turns[0].calls[0].outcome is CallOutcome.UNKNOWN_TOOL
