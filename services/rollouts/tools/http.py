"""Tools that are any HTTP endpoint."""

import json

from services.contracts.base import JsonObject
from services.inference.clients.json_service import JsonService, Retries, ServiceFailed, Trouble
from services.rollouts.tools.configuration import HttpConfig
from services.rollouts.tools.fault import service_fault
from services.rollouts.tools.said import Said
from services.rollouts.tools.targets import Target

UNTOUCHED = frozenset({429, 503})
"""Answers of a service that has not begun with the request."""


def http_service(target: Target, config: HttpConfig) -> JsonService:
    """The connection to an endpoint; a request that it may have acted on is sent again only where
    the endpoint is idempotent."""
    again = {Trouble.BROKEN_OFF, Trouble.TIMED_OUT, Trouble.UNREADABLE}
    retries = Retries(
        attempts=3,
        deadline_seconds=2 * config.timeout,
        statuses=UNTOUCHED | ({500, 502, 504} if config.idempotent else set()),
        troubles=frozenset(again if config.idempotent else ()),
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

    async def run(self, arguments: JsonObject) -> Said:
        """What the endpoint answered; raises `ToolFault`."""
        try:
            answer = await self._service.post(arguments, _text)
        except ServiceFailed as failed:
            raise service_fault(failed) from failed
        return Said(answer.value, answer.attempts)


def _text(body: bytes) -> str:
    text = body.decode(errors="replace")
    if text.lstrip().startswith('"'):
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, str) else text
    return text
