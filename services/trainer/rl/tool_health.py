"""Tools that do not work: found before the first prompt, and reported while training runs."""

from collections import Counter
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed
from services.contracts.multi_turn import Tool
from services.contracts.trajectories import CallOutcome, Trajectory
from services.core.process.reporter import Reporter
from services.rollouts.tools import Toolbox
from services.rollouts.tools.configuration import ToolKind
from services.rollouts.tools.declaration import declarations

UNAVAILABLE = frozenset({CallOutcome.FAILED, CallOutcome.TIMED_OUT})
"""Outcomes of calls that the tool did not answer; invalid calls are the model's fault."""
PROBES: dict[ToolKind, JsonObject] = {
    ToolKind.SANDBOX: {"code": "print(1)"},
    ToolKind.RETOOL: {"code": "print(1)"},
    ToolKind.SEARCH: {"query_list": ["test"]},
}
"""Calls without side effects; other kinds are the user's own and are not called unasked."""
FAILURES_TO_WARN = 8


async def check_tools_respond(tools: Sequence[Tool], toolbox: Toolbox) -> None:
    """Call each sandbox and search tool once; raises `JobFailed` with the error of the first that
    fails, such as a missing index."""
    for declaration in declarations(tools, "tools"):
        if (arguments := PROBES.get(declaration.kind)) is None:
            continue
        reply = await toolbox.call(declaration.name, arguments)
        if reply.outcome in UNAVAILABLE:
            message = f"tool {declaration.name!r} does not respond: {reply.error}"
            raise JobFailed(message, code="tool_unavailable", param=declaration.param)


class ToolMonitor:
    """Warns once when a tool has failed in `FAILURES_TO_WARN` consecutive calls."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._failures: Counter[str] = Counter()

    def observe(self, trajectory: Trajectory) -> None:
        """Count the calls of a finished rollout."""
        for call in (call for turn in trajectory.turns for call in turn.calls):
            if call.outcome is CallOutcome.ANSWERED:
                self._failures[call.name] = 0
            elif call.outcome in UNAVAILABLE:
                self._failures[call.name] += 1
                if self._failures[call.name] == FAILURES_TO_WARN:
                    text = f"tool {call.name!r} failed in {FAILURES_TO_WARN} consecutive calls"
                    self._reporter.message(f"{text}; the last: {call.error}", "warn")
