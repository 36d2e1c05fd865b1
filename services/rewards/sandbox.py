"""Runs code in the sandbox for rewards."""

from typing import TypeVar

from pydantic import ValidationError

from services.contracts.base import JsonObject, Resource
from services.contracts.failures import InfrastructureCause
from services.contracts.validation import first_fault
from services.core.operator_environment import OperatorEnvironment
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries
from services.rewards.interface import RewardFailed, RewardFailureKind

CONNECTIONS = 64
# Running the same code again is harmless.
RETRIED = frozenset({429, 500, 502, 503, 504})
RETRIED_KINDS = frozenset({FailureKind.BROKEN_OFF, FailureKind.UNREADABLE})
QUEUE_SECONDS = 60.0
"""Allowed in addition to the programs' own time limits."""

Response = TypeVar("Response", bound=Resource)


def connect_sandbox(environment: OperatorEnvironment, path: str, seconds: float) -> JsonService:
    """A client of one route, for programs that may run for ``seconds`` in total."""
    limit = seconds + QUEUE_SECONDS
    return JsonService(
        environment.sandbox_url + path,
        environment.sandbox_api_key,
        timeout=limit,
        retries=Retries(environment.attempts, 2 * limit, RETRIED, RETRIED_KINDS),
        connections=CONNECTIONS,
        direct=True,
    )


async def ask_sandbox(service: JsonService, body: JsonObject, kind: type[Response]) -> Response:
    """The sandbox's response; raises `ServiceFailed`."""
    answer = await service.post(body, lambda text: _read(text, kind))
    return answer.value


def starved(kind: RewardFailureKind = RewardFailureKind.OTHER) -> RewardFailed:
    """The failure of a program whose time limit passed while it waited for a processor."""
    message = "a program's time limit passed while it waited for a processor"
    return RewardFailed(message, kind, InfrastructureCause.NO_PROCESSOR_TIME)


def _read(text: bytes, kind: type[Response]) -> Response:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(first_fault(error).sentence("body")) from None
