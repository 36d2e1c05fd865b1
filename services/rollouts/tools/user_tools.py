"""Tools of the user: any HTTP endpoint, and Python functions."""

import json

from services.contracts.base import JsonObject
from services.contracts.rollouts.tool_runs import HttpRun
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.process.worker_pool import FunctionFailed, FunctionPool, FunctionTimedOut
from services.inference.causes import cause_of
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.rollouts.tools.base import (
    SHOWN_CHARACTERS,
    ToolError,
    ToolResult,
    request_failure,
    service_error,
)
from services.rollouts.tools.configuration import CallableConfig, HttpConfig
from services.rollouts.tools.endpoints import ToolEndpoint

UNTOUCHED = frozenset({429, 503})
"""Statuses that mean the service did not start the request."""


def http_service(target: ToolEndpoint, config: HttpConfig) -> JsonService:
    """The connection to an endpoint; requests with an unknown outcome are retried only if the
    endpoint is idempotent."""
    again = {FailureKind.BROKEN_OFF, FailureKind.TIMED_OUT, FailureKind.UNREADABLE}
    retries = Retries(
        attempts=3,
        deadline_seconds=2 * config.timeout,
        statuses=UNTOUCHED | ({500, 502, 504} if config.idempotent else set()),
        kinds=frozenset(again if config.idempotent else ()),
    )
    return JsonService(
        target.url,
        target.api_key,
        timeout=config.timeout,
        retries=retries,
        connections=config.max_in_flight,
        keep_alive=config.idempotent,
    )


class HttpTool:
    """Posts the arguments as a JSON object. The reply is the body: a JSON string's value, or the
    raw text."""

    def __init__(self, service: JsonService, *, idempotent: bool) -> None:
        self._service = service
        self.idempotent = idempotent

    async def run(self, arguments: JsonObject) -> ToolResult:
        """The endpoint's answer; raises `ToolError`."""
        try:
            answer = await self._service.post(arguments, _text)
        except ServiceFailed as failed:
            raise service_error(failed, HttpRun(failure=request_failure(failed))) from failed
        return ToolResult(answer.value, answer.attempts)

    async def probe(self) -> None:
        """Check the connection without a call, which may have side effects."""
        try:
            await self._service.reach()
        except ServiceFailed as failed:
            raise service_error(failed) from failed


def _text(body: bytes) -> str:
    text = body.decode(errors="replace")
    if text.lstrip().startswith('"'):
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, str) else text
    return text


class FunctionTool:
    """Calls a function with the arguments by name. The reply is the returned string, or the value
    as JSON."""

    idempotent = False

    def __init__(self, processes: FunctionPool, config: CallableConfig) -> None:
        self._processes = processes
        self._timeout = config.timeout

    async def run(self, arguments: JsonObject) -> ToolResult:
        """The function's return value; raises `ToolError`."""
        try:
            value = await self._processes.call(arguments, self._timeout)
        except FunctionTimedOut as error:
            text = "Error: the tool did not answer in time."
            cause = cause_of(error)
            raise ToolError(CallOutcome.TIMED_OUT, text, error.message, 1, None, cause) from error
        except FunctionFailed as error:
            text = f"Error: {error.message[:SHOWN_CHARACTERS]}"
            cause = cause_of(error)
            raise ToolError(CallOutcome.FAILED, text, error.message, 1, None, cause) from error
        if isinstance(value, str):
            return ToolResult(value, 1)
        return ToolResult("" if value is None else json.dumps(value, ensure_ascii=False), 1)

    async def probe(self) -> None:
        """Import the function, without calling it."""
        try:
            await self._processes.start()
        except FunctionFailed as error:
            raise ToolError(
                CallOutcome.FAILED, "Error: the tool failed.", error.message, 1
            ) from error
