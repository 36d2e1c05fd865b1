"""The interface of engines that continue token sequences, and what their clients share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.inference.clients.json_service import (
    JsonService,
    Retries,
    ServiceFailed,
    model_retries,
)

FinishReason = Literal["stop", "length", "abort"]
Read = TypeVar("Read")
TokenId = Annotated[int, Field(ge=0, lt=2**31)]

TURN_TIMEOUT = 3600.0
"""Seconds per attempt: a long turn on a server with a long queue."""
TURN_RETRIES = model_retries(attempts=6, deadline_seconds=2 * TURN_TIMEOUT)
LARGEST_ANSWER = 256 * 2**20
"""Bytes; a teacher's top-k alternatives for ten thousand tokens take this much."""
LEAST_LOG_PROB = -9000.0
"""vLLM reports -9999 for a log-probability of NaN."""
TOP_K_LIMIT = 1024
"""Maximum number of alternatives per token on our servers; vLLM's default is 20."""


class EngineFailed(TemperError):
    """The engine returned no tokens, after all retries."""

    code = "engine_failed"

    @property
    def status(self) -> int | None:
        """The HTTP status of its last answer; None without one."""
        cause = self.__cause__
        return cause.status if isinstance(cause, ServiceFailed) else None


@dataclass(frozen=True)
class TurnSampling:
    """How one turn is sampled; with ``seed`` None the engine draws one.

    A turn ends with one of ``stop_token_ids`` (kept, as its last token), after a text of ``stop``
    or after ``max_tokens``. Turns of one ``session`` (a trajectory) are routed to the same server,
    for its prefix cache (sticky routing).
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    session: str | None = None


@dataclass(frozen=True)
class SampledTokens:
    """One sampled turn, including the token that ended it.

    ``log_probs`` (nats) and ``policy_versions`` have one entry per token. Log-probabilities refer
    to the distribution sampled from: after temperature, top_p, top_k and min_p.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    policy_versions: tuple[int, ...]
    finish_reason: FinishReason


class TokenEngine(Protocol):
    """Continues token sequences; safe for concurrent use."""

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        ...


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


class ServedEngine(JsonService):
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
        super().__init__(
            base_url.rstrip("/"),
            api_key,
            timeout=timeout,
            retries=retries,
            connections=max_connections,
            largest_answer=LARGEST_ANSWER,
        )
        self._model = model
        self._policy_version = policy_version

    async def _ask_server(
        self, route: str, payload: JsonObject, read: Callable[[bytes], Read]
    ) -> Read:
        """The answer as parsed by ``read``; raises `EngineFailed`."""
        try:
            return (await self.post(payload, read, route)).value
        except ServiceFailed as error:
            raise EngineFailed(error.message) from error


@dataclass(frozen=True)
class PromptLogProbs:
    """Natural log-probabilities of the n - 1 tokens after the first, at temperature 1.

    ``tokens`` has shape (n - 1,); ``top_ids`` and ``top_log_probs``, shape (n - 1, k), are the
    most probable tokens at each position, best first. Row i refers to token i + 1.
    """

    tokens: NDArray[np.float32]
    top_ids: NDArray[np.int32]
    top_log_probs: NDArray[np.float32]


class Alternative(BaseModel):
    """A candidate at a prompt position; ``rank`` 1 is the most probable."""

    logprob: float
    rank: int | None = None


PromptPlaces = list[dict[int, Alternative] | None]
"""Per prompt token: itself and the most probable ones, by id; None for the first."""


def read_prompt(
    token_ids: Sequence[int], places: PromptPlaces | None, top_k: int
) -> PromptLogProbs:
    """Arrange a server's answer; raises ValueError if it does not match ``token_ids``."""
    if places is None or len(places) != len(token_ids):
        raise ValueError("prompt_logprobs are not those of the prompt")
    tokens = np.empty(len(token_ids) - 1, np.float32)
    top_ids = np.empty((len(token_ids) - 1, top_k), np.int32)
    top_log_probs = np.empty((len(token_ids) - 1, top_k), np.float32)
    for row, (token, place) in enumerate(zip(token_ids[1:], places[1:], strict=True)):
        if place is None or token not in place or len(place) < top_k:
            raise ValueError(f"prompt_logprobs[{row + 1}] lacks tokens")
        tokens[row] = place[token].logprob
        best = sorted(place.items(), key=lambda each: -each[1].logprob)[:top_k]
        top_ids[row] = [each for each, _ in best]
        top_log_probs[row] = [known.logprob for _, known in best]
    return PromptLogProbs(tokens, top_ids, top_log_probs)
