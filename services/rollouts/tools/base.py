"""The vocabulary of tool calls: results, replies and errors, and the protocols of a toolbox."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.sources import source_of
from services.contracts.rollouts.tool_runs import KEPT_ANSWER_CHARACTERS, RequestFailure, ToolRun
from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.causes import cause_of
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.parsing.foreign_json import storable_text


@dataclass(frozen=True)
class ToolReply:
    """The outcome of one call.

    ``text`` is what the model reads, at most 8 Mi characters of valid UTF-8: the tool's reply, or
    an error phrased for a model. ``error`` is phrased for a person, None if the tool answered.
    ``attempts`` counts requests; ``seconds`` includes the wait for a free slot of the tool. ``run``
    is the program, search or failed request behind it, if there was one. ``cause`` is set where the
    infrastructure failed; ``failures`` counts how often it did, also before a repeat succeeded.
    """

    outcome: CallOutcome
    text: str
    error: str | None
    attempts: int
    seconds: float
    run: ToolRun | None = None
    cause: InfrastructureCause | None = None
    failures: int = 0


@dataclass(frozen=True)
class EpisodeStart:
    """What is known of a rollout as it begins: the fields of its row, and a seed that all rollouts
    of its prompt share, so that they face the same task."""

    extra: JsonObject = field(default_factory=dict)
    seed: int = 0

    @property
    def source(self) -> str | None:
        """The source of the row."""
        return source_of(self.extra)


class EpisodeFailed(Exception):
    """The infrastructure gave a rollout no session of a tool or an environment."""

    def __init__(self, source: str, cause: InfrastructureCause, message: str) -> None:
        super().__init__(message)
        self.lost = LeftOut(source=source, cause=cause, message=message)


class Episode(Protocol):
    """The tools of one rollout, with the sessions and processes that are its own."""

    @property
    def opening(self) -> str | None:
        """What an environment shows before the first turn, if the model is to read it."""
        ...

    @property
    def environments(self) -> Sequence[EnvironmentRecord]:
        """What each environment has said so far."""
        ...

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """Call a tool; ``arguments`` is None if the model's were unreadable.

        Failures become replies: only ``CancelledError`` is raised.
        """
        ...


class Toolbox(Protocol):
    """The tools of a job; safe for concurrent use."""

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        """The schemas of all tools: {type: function, function: {name, ...}}."""
        ...

    def offered(self, source: str | None) -> tuple[JsonObject, ...]:
        """The schemas that the model is shown for a row of a source."""
        ...

    def episode(self, start: EpisodeStart) -> AbstractAsyncContextManager[Episode]:
        """The tools of one rollout, whose sessions end with the block.

        Entering raises `EpisodeFailed`; leaving raises nothing.
        """
        ...

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """Call a tool outside of any rollout; see `Episode.call`."""
        ...

    async def probe(self, name: str) -> str | None:
        """Check, without side effects, why a tool cannot be called; None if it can."""
        ...

    async def discover(self, position: int) -> str | None:
        """Ask the server of a declaration without a schema for its tools, and offer them from then
        on. Returns why that is impossible; None if it was done."""
        ...


@dataclass(frozen=True)
class ToolResult:
    """A tool's reply, the number of requests it took, and the program or search behind it."""

    text: str
    attempts: int
    run: ToolRun | None = None


class ToolBackend(Protocol):
    """One tool, ready for calls."""

    @property
    def idempotent(self) -> bool:
        """Whether a call may be repeated when its outcome is unknown."""
        ...

    async def run(self, arguments: JsonObject) -> ToolResult:
        """Call it once; raises `ToolError`."""
        ...

    async def probe(self) -> None:
        """Check that it responds, without side effects; raises `ToolError`."""
        ...


class ToolServer(Protocol):
    """A server that tells which tools it has."""

    async def listed(self) -> Sequence[JsonObject]:
        """Its tools as MCP describes them: {name, description, inputSchema}; raises `ToolError`."""
        ...


class ToolSession(Protocol):
    """What a rollout has of a server that keeps a state for it; calls are made in their order."""

    @property
    def opening(self) -> str | None:
        """See `Episode.opening`."""
        ...

    @property
    def environment(self) -> EnvironmentRecord | None:
        """What the environment has said so far; None for a server that is none."""
        ...

    async def call(self, name: str, arguments: JsonObject) -> ToolResult:
        """Call a tool once; raises `ToolError`."""
        ...


class SessionServer(ToolServer, Protocol):
    """A server of sessions, one for each rollout."""

    def session(self, start: EpisodeStart) -> AbstractAsyncContextManager[ToolSession]:
        """A session that ends with the block. Entering raises `ToolError`, leaving nothing."""
        ...

    async def probe(self, name: str) -> None:
        """Check that it responds and has the tool, without side effects; raises `ToolError`."""
        ...


BAD_ARGUMENTS = frozenset({400, 413, 422})
SHOWN_CHARACTERS = 500


class ToolError(Exception):
    """A call failed. ``text`` is for the model, ``error`` for a person; ``run`` is the request to a
    service and its answer, if there was one; ``cause`` is set where the infrastructure failed."""

    def __init__(
        self,
        outcome: CallOutcome,
        text: str,
        error: str,
        attempts: int,
        run: ToolRun | None = None,
        cause: InfrastructureCause | None = None,
    ) -> None:
        super().__init__(error)
        self.outcome = outcome
        self.text = text
        self.error = error
        self.attempts = attempts
        self.run = run
        self.cause = cause


def bad_arguments(problem: str) -> ToolError:
    """The model's arguments are unusable; no request was made."""
    return ToolError(CallOutcome.INVALID_ARGUMENTS, f"Error: {problem}", problem, 0)


def service_error(failed: ServiceFailed, run: ToolRun | None = None) -> ToolError:
    """The service failed at ``run``. The model reads details only of its own mistakes."""
    outcome, text = CallOutcome.FAILED, "Error: the tool could not be reached."
    is_refusal = failed.kind in (FailureKind.STATUS, FailureKind.FINAL)
    if is_refusal and failed.status in BAD_ARGUMENTS:
        outcome = CallOutcome.INVALID_ARGUMENTS
        text = f"Error: the tool refused the arguments: {failed.body[:SHOWN_CHARACTERS]}"
    elif failed.kind is FailureKind.TIMED_OUT:
        outcome, text = CallOutcome.TIMED_OUT, "Error: the tool did not answer in time."
    elif failed.kind is FailureKind.ENDLESS:
        text = "Error: the tool's answer is too long."
    elif is_refusal:
        text = f"Error: the tool failed with HTTP status {failed.status}."
    elif failed.kind is FailureKind.UNREADABLE:
        text = "Error: the tool gave an answer that cannot be read."
    elif failed.kind is FailureKind.BROKEN_OFF:
        text = "Error: the tool broke off its answer."
    return ToolError(outcome, text, failed.message, failed.attempts, run, cause_of(failed))


def request_failure(failed: ServiceFailed) -> RequestFailure:
    """The record of a failed request."""
    answer = storable_text(failed.body[:KEPT_ANSWER_CHARACTERS])
    return RequestFailure(status=failed.status, answer=answer, seconds=failed.seconds)
