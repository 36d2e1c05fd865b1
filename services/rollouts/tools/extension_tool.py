"""A tool of another package, whose replies and errors are checked in whole."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import SupportsIndex

from pydantic import TypeAdapter, ValidationError

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.tool_runs import HttpRun, ProgramRun, SearchRun, ToolRun
from services.contracts.rollouts.trajectories import CallOutcome
from services.contracts.validation import first_fault
from services.inference.causes import cause_of_foreign
from services.parsing.foreign_json import storable_json
from services.rollouts.tools.base import ToolBackend, ToolError, ToolResult

logger = logging.getLogger(__name__)

_RUN: TypeAdapter[ToolRun] = TypeAdapter(ToolRun)


class ExtensionTool:
    """A tool of another package, whose failures name the package's extension."""

    def __init__(self, name: str, tool: ToolBackend) -> None:
        idempotent: object = tool.idempotent
        if not isinstance(idempotent, bool):
            raise TypeError(f"its tool's idempotent is {idempotent!r:.100}, not a boolean")
        self.idempotent = idempotent
        self._name = name
        self._tool = tool

    async def run(self, arguments: JsonObject) -> ToolResult:
        """Its reply; what it raises, or returns in place of a `ToolResult` of the declared types,
        is a failure like that of a user's function."""
        with self._named():
            return _checked(await self._tool.run(arguments))

    async def probe(self) -> None:
        """Ask whether it responds; raises `ToolError`."""
        with self._named():
            await self._tool.probe()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            try:
                yield
            except ToolError as error:
                raise _checked_error(error) from error.__cause__
        except ToolError:
            raise
        except (Exception, SystemExit) as error:
            logger.warning("the extension %.100r", self._name, exc_info=True)
            message = f"the extension {self._name!r} raised {type(error).__name__}: {error}"
            cause = cause_of_foreign(error)
            text = "Error: the tool failed."
            raise ToolError(CallOutcome.FAILED, text, message, 1, None, cause) from error


def _checked(given: object) -> ToolResult:
    """The result with plain values in all its fields; raises `TypeError`."""
    if not isinstance(given, ToolResult):
        raise TypeError(f"its result is {given!r:.100}, not a ToolResult")
    what = "its result's"
    text = _text(given.text, f"{what} text")
    return ToolResult(text, _count(given.attempts, f"{what} attempts"), _run(given.run, what))


def _checked_error(given: ToolError) -> ToolError:
    """The error with plain values in all its fields; raises `TypeError` or `ValueError`."""
    what = "its ToolError's"
    outcome = CallOutcome(given.outcome)
    if not outcome.is_error:
        raise ValueError(f"{what} outcome is {outcome.value!r}, which is none of a failure")
    return ToolError(
        outcome,
        _text(given.text, f"{what} text"),
        _text(given.error, f"{what} error"),
        _count(given.attempts, f"{what} attempts"),
        _run(given.run, what),
        None if given.cause is None else InfrastructureCause(given.cause),
    )


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{what} is {given!r:.100}, not a text")
    return str(given)


def _count(given: object, what: str) -> int:
    count = index(given) if isinstance(given, SupportsIndex) else -1
    if count < 0:
        raise TypeError(f"{what} is {given!r:.100}, not a number of requests")
    return count


def _run(given: object, what: str) -> ToolRun | None:
    """The run as a trajectory stores it."""
    if given is None:
        return None
    if not isinstance(given, ProgramRun | SearchRun | HttpRun):
        raise TypeError(f"{what} run is {given!r:.100}, not a ToolRun")
    try:
        return _RUN.validate_python(storable_json(given.model_dump(warnings=False)))
    except ValidationError as error:
        raise ValueError(f"{what} run cannot be stored: {first_fault(error).sentence()}") from None
