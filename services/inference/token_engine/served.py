"""What token engines over a server share: one model, one connection, one kind of error."""

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from services.contracts.base import JsonObject
from services.inference.clients.model_server import InferenceError, ModelServer
from services.inference.clients.retries import Retries
from services.inference.token_engine.turns import LARGEST_ANSWER, TURN_RETRIES, TURN_TIMEOUT, failed

Read = TypeVar("Read")


class ServedEngine:
    """A model of a server. ``timeout`` is that of one attempt, and at most ``max_connections``
    requests are under way at once. Use it as an async context manager."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        timeout: float = TURN_TIMEOUT,
        retries: Retries = TURN_RETRIES,
        max_connections: int = 1024,
        policy_version: int = 0,
    ) -> None:
        self._server = ModelServer(
            base_url,
            api_key,
            timeout,
            retries=retries,
            max_connections=max_connections,
            largest_answer=LARGEST_ANSWER,
        )
        self._model = model
        self._policy_version = policy_version

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    async def _post(self, route: str, payload: JsonObject, read: Callable[[bytes], Read]) -> Read:
        """What ``read`` makes of the answer; raises `EngineFailed`."""
        try:
            return (await self._server.post(route, payload, read)).value
        except InferenceError as error:
            raise failed(error) from error
