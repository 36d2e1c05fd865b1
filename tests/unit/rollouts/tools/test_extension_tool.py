"""What a tool of another package returns and raises."""

import asyncio
from typing import Any

import numpy as np
import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.tool_runs import HttpRun, ProgramRun, RequestFailure, ToolRun
from services.contracts.rollouts.trajectories import CallOutcome, ToolCallRecord
from services.rollouts.tools.base import ToolError, ToolReply, ToolResult
from services.rollouts.tools.configuration import ToolConfig
from services.rollouts.tools.declaration import Declaration
from services.rollouts.tools.extension_tool import ExtensionTool
from services.rollouts.tools.families import ToolFamily, find_family
from services.rollouts.tools.opening import OpenDeclaration
from services.rollouts.tools.toolbox import _Tools
from tests.unit.rollouts.tools.toolboxes import function


class Given:
    """A tool that returns, or raises, what it was made with."""

    def __init__(self, outcome: Any, idempotent: Any = False) -> None:
        self._outcome = outcome
        self.idempotent = idempotent

    async def run(self, arguments: JsonObject) -> ToolResult:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        result: ToolResult = self._outcome
        return result

    async def probe(self) -> None:
        await self.run({})


class Family(ToolFamily[ToolConfig]):
    config = ToolConfig

    def open(self, config: ToolConfig, environment: Any) -> Any:
        raise NotImplementedError


def reply(outcome: Any) -> ToolReply:
    """The toolbox's reply of one call."""

    async def run() -> ToolReply:
        declaration = Declaration(
            config=ToolConfig(),
            kind=Family(),
            class_name="e",
            schema=function("f"),
            param="tools[0]",
            sources=None,
        )
        tool = ExtensionTool("e", Given(outcome))
        opened = OpenDeclaration(declaration, tool, asyncio.Semaphore(1))
        return await _Tools([opened], repeat_seconds=0.0).call("f", {})

    return asyncio.run(run())


def failed(**changes: Any) -> ToolError:
    fields: dict[str, Any] = {"outcome": CallOutcome.FAILED, "text": "Error", "error": "broke"}
    fields["attempts"] = 1
    return ToolError(**{**fields, **changes})


def http_run(seconds: Any) -> ToolRun:
    return HttpRun(failure=RequestFailure.model_construct(status=500, answer="", seconds=seconds))


def test_a_result_is_stored_as_plain_values() -> None:
    program = ProgramRun(language="python", code="\ud800")

    attempts: Any = np.int64(2)
    given = reply(ToolResult(np.str_("ok"), attempts, program))

    assert (given.outcome, given.text, given.attempts) == (CallOutcome.ANSWERED, "ok", 2)
    assert (type(given.text), type(given.attempts)) == (str, int)
    assert given.run == ProgramRun(language="python", code="\ufffd")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (5, "its result is 5, not a ToolResult"),
        (ToolResult(None, 1), "its result's text is None, not a text"),  # type: ignore[arg-type]  # as of another package
        (ToolResult("ok", None), "its result's attempts is None, not a number of requests"),  # type: ignore[arg-type]  # as of another package
        (ToolResult("ok", 1.5), "its result's attempts is 1.5, not a number of requests"),  # type: ignore[arg-type]  # as of another package
        (ToolResult("ok", -1), "its result's attempts is -1, not a number of requests"),
        (ToolResult("ok", 1, {}), "its result's run is {}, not a ToolRun"),  # type: ignore[arg-type]  # as of another package
        (ToolResult("ok", 1, http_run("long")), "run cannot be stored: http.failure.seconds: "),
        (ToolResult("ok", 1, http_run(float("nan"))), "run cannot be stored: http.failure.seconds"),
        (failed(attempts=None), "its ToolError's attempts is None, not a number of requests"),
        (failed(text=None), "its ToolError's text is None, not a text"),
        (failed(error=KeyError("a")), r"its ToolError's error is KeyError\('a'\), not a text"),
        (failed(outcome="lost"), "'lost' is not a valid CallOutcome"),
        (failed(outcome="answered"), "its ToolError's outcome is 'answered', which is none of"),
        (failed(cause="tired"), "'tired' is not a valid InfrastructureCause"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_what_is_no_result_is_a_failure_that_names_the_extension(result: Any, message: str) -> None:
    given = reply(result)

    assert (given.outcome, given.attempts) == (CallOutcome.FAILED, 1)
    with pytest.raises(ToolError, match=f"^the extension 'e' raised .*{message}") as raised:
        asyncio.run(ExtensionTool("e", Given(result)).run({}))
    assert given.error == raised.value.error
    ToolCallRecord(
        name="f", arguments={}, outcome=given.outcome, attempts=given.attempts, error=given.error
    )


def test_an_error_of_the_package_is_the_calls() -> None:
    given = reply(failed(outcome="timed_out", cause="overloaded", attempts=np.int64(3)))

    assert (given.outcome, given.cause) == (CallOutcome.TIMED_OUT, InfrastructureCause.OVERLOADED)
    assert (given.text, given.error, given.attempts) == ("Error", "broke", 3)


def test_a_probe_that_fails_in_no_known_way_names_the_extension() -> None:
    with pytest.raises(ToolError, match=r"^the extension 'e' raised ValueError: 'lost' is not"):
        asyncio.run(ExtensionTool("e", Given(failed(outcome="lost"))).probe())


def test_a_tool_says_whether_its_calls_may_be_repeated() -> None:
    with pytest.raises(TypeError, match="its tool's idempotent is 'no', not a boolean"):
        ExtensionTool("e", Given(ToolResult("ok", 1), idempotent="no"))


def test_a_tool_that_is_not_installed_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'absent' is not a known tool") as refused:
        find_family("absent", "tools[0].class_name")

    assert (refused.value.code, refused.value.param) == (
        "extension_not_found",
        "tools[0].class_name",
    )
