"""What token engines share: fields, checks and errors of both routes."""

from collections.abc import Callable
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field

from services.contracts.base import JsonObject
from services.inference.clients.json_service import Retries
from services.inference.clients.model_server import InferenceError, ModelServer, model_retries
from services.inference.token_engine.interface import EngineFailed, TurnSampling

FinishReason = Literal["stop", "length", "abort"]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]

TURN_TIMEOUT = 3600.0
"""Seconds per attempt: a long turn on a server with a long queue."""
TURN_RETRIES = model_retries(attempts=6, deadline_seconds=2 * TURN_TIMEOUT)
LARGEST_ANSWER = 256 * 2**20
"""Bytes; a teacher's top-k alternatives for ten thousand tokens take this much."""
LEAST_LOG_PROB = -9000.0
"""vLLM reports -9999 for a log-probability of NaN."""


def sampling_fields(sampling: TurnSampling) -> JsonObject:
    """All sampling parameters: vLLM takes missing ones from the model's generation config."""
    fields: JsonObject = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": 1.0,
        "stop_token_ids": list(sampling.stop_token_ids),
    }
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        fields["seed"] = sampling.seed
    return fields


def checked(token_ids: list[int], log_probs: list[float | None]) -> tuple[float, ...]:
    """The log-probability of each token; raises ValueError if one is missing."""
    if len(log_probs) != len(token_ids):
        raise ValueError(f"{len(token_ids)} tokens with {len(log_probs)} log-probabilities")
    known = tuple(each for each in log_probs if each is not None and each > LEAST_LOG_PROB)
    if len(known) != len(token_ids):
        raise ValueError("a sampled token has no probability")
    return known


def failed(error: InferenceError) -> EngineFailed:
    """A client's error as an engine failure."""
    return EngineFailed(error.message)


Read = TypeVar("Read")


class ServedEngine:
    """One model of a server, as an async context manager. ``timeout`` applies to one attempt; at
    most ``max_connections`` requests are in flight."""

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

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(*error)

    async def _post(self, route: str, payload: JsonObject, read: Callable[[bytes], Read]) -> Read:
        """The answer as parsed by ``read``; raises `EngineFailed`."""
        try:
            return (await self._server.post(route, payload, read)).value
        except InferenceError as error:
            raise failed(error) from error
