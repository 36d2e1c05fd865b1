"""Tools of the user: any HTTP endpoint, and Python functions."""

import json

from services.contracts.base import JsonObject
from services.contracts.trajectories import CallOutcome
from services.core.user_functions.pool import FunctionFailed, FunctionPool, FunctionTimedOut
from services.inference.clients.json_service import FailureKind, JsonService, Retries, ServiceFailed
from services.rollouts.tools.base import SHOWN_CHARACTERS, ToolError, ToolResult, service_error
from services.rollouts.tools.configuration import CallableConfig, HttpConfig
from services.rollouts.tools.endpoints import Endpoint

UNTOUCHED = frozenset({429, 503})
"""Answers of a service that has not begun with the request."""


def http_service(target: Endpoint, config: HttpConfig) -> JsonService:
    """The connection to an endpoint; a request that it may have acted on is sent again only where
    the endpoint is idempotent."""
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
        connections=config.places,
        keep_alive=config.idempotent,
    )


class HttpTool:
    """Posts the arguments as a JSON object. The reply is the body: a JSON string's value, or the
    text as it is."""

    def __init__(self, service: JsonService) -> None:
        self._service = service

    async def run(self, arguments: JsonObject) -> ToolResult:
        """What the endpoint answered; raises `ToolError`."""
        try:
            answer = await self._service.post(arguments, _text)
        except ServiceFailed as failed:
            raise service_error(failed) from failed
        return ToolResult(answer.value, answer.attempts)


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
    """Calls a function with the arguments by name. The reply is the text that it returns, or its
    value as JSON."""

    def __init__(self, processes: FunctionPool, config: CallableConfig) -> None:
        self._processes = processes
        self._timeout = config.timeout

    async def run(self, arguments: JsonObject) -> ToolResult:
        """What the function returned; raises `ToolError`."""
        try:
            value = await self._processes.call(arguments, self._timeout)
        except FunctionTimedOut as error:
            text = "Error: the tool did not answer in time."
            raise ToolError(CallOutcome.TIMED_OUT, text, error.message, 1) from error
        except FunctionFailed as error:
            text = f"Error: {error.message[:SHOWN_CHARACTERS]}"
            raise ToolError(CallOutcome.FAILED, text, error.message, 1) from error
        if isinstance(value, str):
            return ToolResult(value, 1)
        return ToolResult("" if value is None else json.dumps(value, ensure_ascii=False), 1)
