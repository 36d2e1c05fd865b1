"""The vocabulary of tool calls: results, replies and errors, and the protocols of a toolbox."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.trajectories import CallOutcome
from services.inference.clients.json_service import FailureKind, ServiceFailed


@dataclass(frozen=True)
class ToolReply:
    """What came of one call.

    ``text`` is what the model is to read, of at most 8 MiB characters and sanitize as UTF-8: the
    tool's reply, or what went wrong in words that help a model. ``error`` says it to a person,
    null where the tool answered. ``attempts`` counts requests, 0 where none was made;
    ``seconds`` include the wait for a free place of the tool.
    """

    outcome: CallOutcome
    text: str
    error: str | None
    attempts: int
    seconds: float


class Toolbox(Protocol):
    """The tools of a job; safe to ask from many tasks at once."""

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        """What the model reads of each tool: {type: function, function: {name, ...}}."""
        ...

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """Call a tool; ``arguments`` is null where the model wrote none that could be read.

        Whatever goes wrong is a reply: nothing is raised but ``CancelledError``.
        """
        ...


@dataclass(frozen=True)
class ToolResult:
    """A tool's reply, and how many requests it took."""

    text: str
    attempts: int


class ToolBackend(Protocol):
    """One tool, ready to be called."""

    async def run(self, arguments: JsonObject) -> ToolResult:
        """Call it once; raises `ToolError`."""
        ...


BAD_ARGUMENTS = frozenset({400, 413, 422})
SHOWN_CHARACTERS = 500


class ToolError(Exception):
    """A call came to nothing. ``text`` is for the model, ``error`` for a person."""

    def __init__(self, outcome: CallOutcome, text: str, error: str, attempts: int) -> None:
        super().__init__(error)
        self.outcome = outcome
        self.text = text
        self.error = error
        self.attempts = attempts


def bad_arguments(problem: str) -> ToolError:
    """The model's arguments cannot be used; nothing was asked."""
    return ToolError(CallOutcome.INVALID_ARGUMENTS, f"Error: {problem}", problem, 0)


def service_error(failed: ServiceFailed) -> ToolError:
    """The service gave no answer. The model reads what it can learn from: its own mistakes."""
    outcome, text = CallOutcome.FAILED, "Error: the tool could not be reached."
    is_refusal = failed.kind in (FailureKind.STATUS, FailureKind.FINAL)
    if is_refusal and failed.status in BAD_ARGUMENTS:
        outcome = CallOutcome.INVALID_ARGUMENTS
        text = f"Error: the tool refused the arguments: {failed.body[:SHOWN_CHARACTERS]}"
    elif failed.kind is FailureKind.TIMED_OUT:
        outcome, text = CallOutcome.TIMED_OUT, "Error: the tool did not answer in time."
    elif is_refusal and failed.status == HTTPStatus.OK:
        text = "Error: the tool's answer is too long."
    elif is_refusal:
        text = f"Error: the tool failed with HTTP status {failed.status}."
    elif failed.kind is FailureKind.UNREADABLE:
        text = "Error: the tool gave an answer that cannot be read."
    elif failed.kind is FailureKind.BROKEN_OFF:
        text = "Error: the tool broke off its answer."
    return ToolError(outcome, text, failed.message, failed.attempts)


def sanitize(text: str) -> str:
    """The text with surrogates put together to the characters that they mean, and U+FFFD for
    those that mean none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
