"""Tools that fail are found before training and reported during it."""

import asyncio
import json
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed
from services.contracts.multi_turn import Tool
from services.contracts.trajectories import (
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.core.process.reporter import REPORTS, Reporter
from services.rollouts.tools import ToolReply
from services.trainer.rl.metrics import FAILURES_TO_WARN, ToolMonitor
from services.trainer.rl.setup import check_tools_respond


class OneReply:
    """A toolbox whose tools all reply in one way."""

    schemas: tuple[JsonObject, ...] = ()

    def __init__(self, outcome: CallOutcome) -> None:
        self.called: list[str] = []
        self._outcome = outcome

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        self.called.append(name)
        return ToolReply(self._outcome, "", "index 'wiki' does not exist", 1, 0.0)


def trajectory(outcome: CallOutcome) -> Trajectory:
    call = ToolCallRecord(name="search", arguments={}, outcome=outcome, error="no index")
    turn = Turn(text="", token_start=0, token_count=0, finish_reason="stop", calls=[call])
    return Trajectory(
        id="traj-0-0",
        prompt_index=0,
        messages=[],
        prompt_token_ids=[],
        turns=[turn],
        finish_reason=FinishReason.ANSWERED,
    )


def warnings(folder: Path) -> list[str]:
    path = folder / REPORTS
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["message"] for line in lines]


def test_tool_that_does_not_respond_fails_the_job_before_training() -> None:
    tools = [Tool(class_name="search", config={"index": "wiki"}), Tool(class_name="sandbox")]
    with pytest.raises(JobFailed, match="does not respond: index 'wiki' does not exist"):
        asyncio.run(check_tools_respond(tools, OneReply(CallOutcome.FAILED)))
    working = OneReply(CallOutcome.ANSWERED)
    asyncio.run(check_tools_respond(tools, working))
    assert len(working.called) == 2


def test_tool_that_fails_in_every_call_raises_one_warning(tmp_path: Path) -> None:
    monitor = ToolMonitor(Reporter(tmp_path))
    for _ in range(FAILURES_TO_WARN - 1):
        monitor.observe(trajectory(CallOutcome.FAILED))
    assert warnings(tmp_path) == []
    for _ in range(FAILURES_TO_WARN):
        monitor.observe(trajectory(CallOutcome.TIMED_OUT))
    (warning,) = warnings(tmp_path)
    assert "'search' failed in 8 consecutive calls; the last: no index" in warning


def test_tool_that_answers_now_and_then_raises_no_warning(tmp_path: Path) -> None:
    monitor = ToolMonitor(Reporter(tmp_path))
    for _ in range(FAILURES_TO_WARN):
        monitor.observe(trajectory(CallOutcome.FAILED))
        monitor.observe(trajectory(CallOutcome.ANSWERED))
        monitor.observe(trajectory(CallOutcome.INVALID_ARGUMENTS))
    assert warnings(tmp_path) == []
