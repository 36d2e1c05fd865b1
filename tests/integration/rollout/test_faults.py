"""Rollouts with failing tools: none is lost, and each records what happened."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.multi_turn import MultiTurn, OnToolError, RolloutSampling, Tool
from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
)
from services.core.operator_environment import OperatorEnvironment
from services.datasets.append_log import AppendLog, read_records
from services.rollouts.loop import MAX_PLAYS, Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.tools import open_toolbox, sandbox
from services.rollouts.tools.toolbox import REPEAT_SECONDS
from tests.support.rollouts import END_TEXT, CharacterChat, ScriptedEngine, hermes, question
from tests.unit.inference.scripted_server import (
    Behavior,
    Exchange,
    ScriptedServer,
    answer,
    break_off,
    hang,
    reset,
    running_server,
)

ROLLOUTS = 60
FAULTS: tuple[Behavior, ...] = (
    reset,
    break_off,
    hang,
    answer(500),
    answer(504),
    answer(body=b"<html>"),
)
ANSWERS: dict[str, object] = {
    "/run_code": {
        "status": "Success",
        "run_result": {"status": "Finished", "return_code": 0, "stdout": "42\n", "stderr": ""},
    },
    "/retrieve": {"result": [[{"document": {"contents": '"Nile"\nA river.'}, "score": 1.0}]]},
    "/ask": "sunny",
}
CALLS = (
    hermes("code_interpreter", code="print(6 * 7)"),
    hermes("search", query_list=["longest river"]),
    hermes("ask", city="Bern"),
    hermes("double", value=4),
    hermes("nothing"),
)
DOUBLE = "tests.integration.rollout.doubling.double"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setattr(sandbox, "GRACE_SECONDS", 0.0)
    with running_server() as scripted:
        yield scripted


def tools(server: ScriptedServer) -> list[Tool]:
    """One tool of each kind."""
    origin = server.url.removesuffix("/v1")
    places = {"num_workers": 40, "rate_limit": 40}
    # Long enough for a busy machine: only a hanging request reaches these limits.
    run = {"sandbox_fusion_url": f"{origin}/run_code", "default_timeout": 1.5, **places}
    find = {"retrieval_service_url": f"{origin}/retrieve", "timeout": 3, **places}
    ask = {"url": f"{origin}/ask", "timeout": 3, **places}
    function = {"callable": DOUBLE, "num_workers": 2}
    return [
        Tool(class_name="sandbox", config=run),
        Tool(class_name="search", config=find),
        Tool(class_name="http", config=ask, tool_schema=_schema("ask", city="string")),
        Tool(
            class_name="callable", config=function, tool_schema=_schema("double", value="integer")
        ),
    ]


def _schema(name: str, **types: str) -> JsonObject:
    properties = {argument: {"type": kind} for argument, kind in types.items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def good(exchange: Exchange) -> None:
    """Reply as a healthy tool does."""
    exchange.send(200, json.dumps(ANSWERS[exchange.path]).encode())


def failing(share: float) -> Behavior:
    """Fail a random share of requests."""
    draw = random.Random(7)

    def behave(exchange: Exchange) -> None:
        (draw.choice(FAULTS) if draw.random() < share else good)(exchange)

    return behave


def next_turn(context: str) -> str:
    """Make one call after another, then answer."""
    replies = context.count(f"{END_TEXT}tool:")
    return f"{CALLS[replies]}{END_TEXT}" if replies < len(CALLS) else f"right{END_TEXT}"


async def play(
    log: Path,
    count: int,
    offered: Sequence[Tool],
    repeat_seconds: float = 0.0,
    **settings: object,
) -> list[Trajectory]:
    """Run ``count`` concurrent rollouts and log them as a job does."""
    multi_turn = MultiTurn.model_validate(
        {"multi_turn_enable": True, "max_total_response_length": 100_000, **settings}
    )
    environment = OperatorEnvironment(allowed_callables=(DOUBLE,))
    async with open_toolbox(offered, environment, repeat_seconds) as toolbox:
        engine = ScriptedEngine(next_turn)
        model = TokenModel(engine, CharacterChat(), multi_turn, RolloutSampling())
        rollouts = Rollouts(model, toolbox, multi_turn)
        with AppendLog[Trajectory](log) as kept:
            played = [rollouts.play(question(index=index)) for index in range(count)]
            for ended in asyncio.as_completed(played):
                kept.append(await ended)
    return [trajectory for _, trajectory in read_records(log, Trajectory)]


def calls(trajectories: Sequence[Trajectory]) -> list[ToolCallRecord]:
    return [call for each in trajectories for turn in each.turns for call in turn.calls]


def test_no_failed_call_becomes_data_when_a_fifth_of_tool_calls_fail(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = [failing(0.2)]

    trajectories = asyncio.run(
        play(tmp_path / "log", ROLLOUTS, tools(server), repeat_seconds=REPEAT_SECONDS)
    )

    assert sorted(each.prompt_index for each in trajectories) == list(range(ROLLOUTS))
    answered = [each for each in trajectories if each.left_out is None]
    assert len(answered) > ROLLOUTS / 2
    assert {each.finish_reason for each in answered} == {FinishReason.ANSWERED}
    assert all(each.tool_calls == len(CALLS) for each in answered)
    assert any(each.plays > 1 for each in answered)
    assert all(call.cause is None for call in calls(answered))
    _check_recorded_calls(calls(answered))
    for lost in (each for each in trajectories if each.left_out is not None):
        assert lost.finish_reason is FinishReason.TOOL_UNAVAILABLE
        assert lost.left_out is not None
        assert lost.left_out.source in {"ask", "double"}, "the others can be repeated"
        assert lost.plays == MAX_PLAYS
    outcomes = Counter((call.name, call.outcome) for call in calls(answered))
    assert outcomes["nothing", CallOutcome.UNKNOWN_TOOL] == len(answered)
    killed = sum(each.infrastructure_failures.get("double", 0) for each in trajectories)
    assert 0 < killed < ROLLOUTS
    # A search is retried after any fault.
    assert outcomes["search", CallOutcome.ANSWERED] > 0.8 * ROLLOUTS


def _check_recorded_calls(made: Sequence[ToolCallRecord]) -> None:
    for call in made:
        assert call.shown
        if call.outcome is CallOutcome.ANSWERED:
            assert call.error is None
            assert call.reply == call.shown
        else:
            assert call.error
            assert "Error: " in call.shown
    asked = [call for call in made if call.name in {"code_interpreter", "search", "ask"}]
    assert any(call.attempts > 1 for call in asked)
    assert all(call.attempts >= 1 for call in asked)


def test_every_tool_request_is_recorded(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [failing(0.2)]

    trajectories = asyncio.run(
        play(tmp_path / "log", 20, tools(server)[:2], repeat_seconds=REPEAT_SECONDS)
    )

    assert {each.plays for each in trajectories} == {1}
    # A request may be abandoned before the server reads it, but each one is counted.
    assert sum(call.attempts for call in calls(trajectories)) >= len(server.requests)


@pytest.mark.parametrize("fault", [reset, hang, answer(500), answer(504)])
def test_rollouts_are_left_out_when_tools_always_fail(
    server: ScriptedServer, tmp_path: Path, fault: Behavior
) -> None:
    server.script = [fault]

    trajectories = asyncio.run(play(tmp_path / "log", 4, tools(server)[:3]))

    assert {each.finish_reason for each in trajectories} == {FinishReason.TOOL_UNAVAILABLE}
    sources = {each.left_out.source for each in trajectories if each.left_out is not None}
    assert sources == {"code_interpreter"}
    failures = {"code_interpreter": MAX_PLAYS}
    assert all(each.infrastructure_failures == failures for each in trajectories)


def test_calls_fail_after_their_tool_goes_down(tmp_path: Path) -> None:
    with running_server() as server:

        def last(exchange: Exchange) -> None:
            server.shutdown()
            server.server_close()  # the server is down once the first call is answered
            good(exchange)
            exchange.close_connection = True

        server.script = [last]
        (offered,) = tools(server)[:1]
        offered.config["num_workers"] = 1
        trajectories = asyncio.run(play(tmp_path / "log", 3, [offered]))

    lost = [each for each in trajectories if each.left_out is not None]
    assert len(lost) == 2
    causes = {call.cause for call in calls(lost)}
    assert causes <= {InfrastructureCause.REFUSED, InfrastructureCause.RESET}


def test_a_five_megabyte_reply_is_truncated_for_the_model(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = [answer(body=b"x" * 5_000_000)]
    offered = [
        Tool(
            class_name="http",
            config={"url": server.url},
            tool_schema=_schema("code_interpreter", code="string"),
        )
    ]

    (trajectory,) = asyncio.run(play(tmp_path / "log", 1, offered))

    (call,) = trajectory.turns[0].calls
    assert call.reply_characters == 5_000_000
    assert call.shown == "x" * 128 + "...(truncated)..." + "x" * 128
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert (tmp_path / "log").stat().st_size < 200_000


def test_stopping_on_a_tool_error_names_the_error(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [answer(422)]

    (trajectory,) = asyncio.run(
        play(tmp_path / "log", 1, tools(server), on_tool_error=OnToolError.STOP)
    )

    assert trajectory.finish_reason is FinishReason.TOOL_ERROR
    assert "code_interpreter" in (trajectory.error or "")
    assert "422" in (trajectory.error or "")
