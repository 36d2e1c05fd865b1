"""vLLM servers as token engines: our own by its token route, any other by /v1/completions."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field

from services.contracts.base import JsonObject
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import (
    BrokenOffAnswer,
    Retries,
    ServiceFailed,
    model_retries,
)
from services.inference.token_engine.base import (
    EngineFailed,
    FinishReason,
    PromptLogProbs,
    SampledTokens,
    TurnSampling,
)
from services.parsing.foreign_json import read_foreign

Read = TypeVar("Read")
TokenId = Annotated[int, Field(ge=0, lt=2**31)]

TURN_TIMEOUT = 3600.0
"""Seconds per attempt: a long turn on a server with a long queue."""
TURN_RETRIES = model_retries(attempts=6, deadline_seconds=2 * TURN_TIMEOUT)
LARGEST_ANSWER = 256 * 2**20
"""Bytes; the size of a teacher's top-k alternatives for ten thousand tokens."""
LEAST_LOG_PROB = -9000.0
"""vLLM reports -9999 for a log-probability of NaN."""
GENERATE = "/inference/v1/generate"
"""Of vLLM 0.32, with --enable-scale-out."""
COMPLETIONS = "/completions"
TEXTS_AT_ONCE = 128
"""Fewer than the context of any model has."""
UNNAMED = "default"
"""vLLM's name for the initial weight version."""


class _VllmClient(JsonService):
    """One model of a server, at most ``max_connections`` requests in flight. ``root`` is the part
    of its base URL that routes do not start with."""

    root = ""
    max_connections = 1024

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        retries: Retries = TURN_RETRIES,
        max_connections: int | None = None,
        policy_version: int = 0,
    ) -> None:
        super().__init__(
            base_url.rstrip("/").removesuffix(self.root),
            api_key,
            timeout=TURN_TIMEOUT,
            retries=retries,
            connections=max_connections or self.max_connections,
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


class VllmTokenEngine(_VllmClient):
    """Samples from our own server, started with `Routes.tokens`; an async context manager.

    ``base_url`` includes /v1; ``model`` is a name that the server knows. Tokens carry the weight
    version last set on the server, ``policy_version`` before the first. A paused server does not
    answer until it is resumed.
    """

    root = "/v1"
    max_connections = 4096

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        return await self.generate_as(self._model, self._policy_version, token_ids, sampling)

    async def generate_as(
        self, model: str, policy_version: int, token_ids: Sequence[int], sampling: TurnSampling
    ) -> SampledTokens:
        """Sample from another of the server's models, such as an adapter."""

        def read(reply: bytes) -> SampledTokens:
            return read_foreign(_Answer, reply).choices[0].sampled(policy_version)

        fields = {
            **_sampling_fields(sampling),
            "logprobs": 0,
            "detokenize": bool(sampling.stop),  # only stop strings need the text
        }
        return await self._ask(model, token_ids, fields, read)

    async def prompt_log_probs(
        self, token_ids: Sequence[int], top_k: int = 1, *, model: str | None = None
    ) -> PromptLogProbs:
        """Log-probabilities of ``token_ids`` and of the top-k tokens at each position.

        Raises `EngineFailed`.
        """

        def read(reply: bytes) -> PromptLogProbs:
            places = read_foreign(_Answer, reply).prompt_logprobs
            return _read_prompt(token_ids, places, top_k)

        fields = {"max_tokens": 1, "prompt_logprobs": top_k, "detokenize": False}
        return await self._ask(model or self._model, token_ids, fields, read)

    async def _ask(
        self,
        model: str,
        token_ids: Sequence[int],
        fields: JsonObject,
        read: Callable[[bytes], Read],
    ) -> Read:
        payload = {"model": model, "token_ids": list(token_ids), "sampling_params": fields}
        return await self._ask_server(GENERATE, payload, read)


class CompletionsTokenEngine(_VllmClient):
    """Samples from an external server with fixed weights.

    ``base_url`` includes /v1. Log-probabilities follow the server's --logprobs-mode: by default at
    temperature 1, without top_p and top_k. All tokens have version ``policy_version``.

    The server must be a vLLM that returns token ids (0.10.2 or newer): with another, requests
    fail with the code ``engine_without_token_ids``. Use it as an async context manager.
    """

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""

        def read(reply: bytes) -> SampledTokens:
            choice = read_foreign(_Completions, reply).choices[0]
            if choice.token_ids is None or choice.logprobs is None:
                raise _without_token_ids()
            log_probs = _checked(choice.token_ids, choice.logprobs.token_logprobs)
            versions = (self._policy_version,) * len(log_probs)
            ending = _ending(choice.finish_reason)
            return SampledTokens(tuple(choice.token_ids), log_probs, versions, ending)

        fields = {**_sampling_fields(sampling), "logprobs": 0, "return_token_ids": True}
        return await self._ask(token_ids, fields, read)

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int = 1) -> PromptLogProbs:
        """Log-probabilities of ``token_ids`` and of the top-k tokens at each position.

        ``top_k`` is at most the server's --max-logprobs (default 20). Raises `EngineFailed`.
        """

        def read(reply: bytes) -> PromptLogProbs:
            places = read_foreign(_Completions, reply).choices[0].prompt_logprobs
            if places is None:
                raise _without_token_ids()
            return _read_prompt(token_ids, places, top_k)

        fields: JsonObject = {"max_tokens": 1, "prompt_logprobs": top_k}
        return await self._ask(token_ids, fields, read)

    async def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """The texts of tokens, as far as the server tells them; raises `EngineFailed`."""

        def read(reply: bytes) -> dict[int, str]:
            places = read_foreign(_Completions, reply).choices[0].prompt_logprobs or []
            found = [each for place in places if place is not None for each in place.items()]
            return {token: each.decoded_token for token, each in found if each.decoded_token}

        fields: JsonObject = {"max_tokens": 1, "prompt_logprobs": 1}
        told: dict[int, str] = {}
        for begin in range(0, len(token_ids), TEXTS_AT_ONCE):
            # Nothing is told of the first token of a prompt.
            asked = [token_ids[0], *token_ids[begin : begin + TEXTS_AT_ONCE]]
            told |= await self._ask(asked, fields, read)
        return told

    async def _ask(
        self, token_ids: Sequence[int], fields: JsonObject, read: Callable[[bytes], Read]
    ) -> Read:
        payload = {"model": self._model, "prompt": list(token_ids), **fields}
        return await self._ask_server(COMPLETIONS, payload, read)


class _Alternative(BaseModel):
    """A candidate at a prompt position; ``rank`` 1 is the most probable."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


PromptPlaces = list[dict[int, _Alternative] | None]
"""Per prompt token: itself and the most probable ones, by id; None for the first."""


_Ending = FinishReason | Literal["abort"]


def _ending(reason: _Ending) -> FinishReason:
    """Why a turn is complete; raises `BrokenOffAnswer` for one that is not."""
    if reason == "abort":
        raise BrokenOffAnswer("the server aborted the turn")
    return reason


class _Span(BaseModel):
    """Tokens [start, end) were sampled with this weight version."""

    version: str
    start: int
    end: int


class _Token(BaseModel):
    logprob: float


class _LogProbs(BaseModel):
    content: list[_Token]


class _Choice(BaseModel):
    token_ids: list[TokenId]
    finish_reason: _Ending
    logprobs: _LogProbs | None = None
    weight_versions: list[_Span] | None = None

    def sampled(self, policy_version: int) -> SampledTokens:
        """The sampled turn; raises ValueError if the fields are inconsistent, and
        `BrokenOffAnswer`."""
        content = self.logprobs.content if self.logprobs else []
        return SampledTokens(
            tuple(self.token_ids),
            _checked(self.token_ids, [token.logprob for token in content]),
            self._versions(policy_version),
            _ending(self.finish_reason),
        )

    def _versions(self, unnamed: int) -> tuple[int, ...]:
        versions: list[int] = []
        for span in self.weight_versions or []:
            if span.start != len(versions):
                raise ValueError("weight_versions do not follow one another")
            number = unnamed if span.version == UNNAMED else int(span.version)
            versions += [number] * (span.end - span.start)
        if len(versions) != len(self.token_ids):
            raise ValueError("weight_versions do not cover the tokens")
        return tuple(versions)


class _Answer(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    prompt_logprobs: PromptPlaces | None = None


class _CompletionLogProbs(BaseModel):
    token_logprobs: list[float | None]


class _Completion(BaseModel):
    finish_reason: _Ending
    token_ids: list[TokenId] | None = None
    logprobs: _CompletionLogProbs | None = None
    prompt_logprobs: PromptPlaces | None = None


class _Completions(BaseModel):
    choices: list[_Completion] = Field(min_length=1)


def _sampling_fields(sampling: TurnSampling) -> JsonObject:
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


def _checked(token_ids: list[int], log_probs: list[float | None]) -> tuple[float, ...]:
    """The log-probability of each token; raises ValueError if one is missing."""
    if len(log_probs) != len(token_ids):
        raise ValueError(f"{len(token_ids)} tokens with {len(log_probs)} log-probabilities")
    known = tuple(each for each in log_probs if each is not None and each > LEAST_LOG_PROB)
    if len(known) != len(token_ids):
        raise ValueError("a sampled token has no probability")
    return known


def _read_prompt(
    token_ids: Sequence[int], places: PromptPlaces | None, top_k: int
) -> PromptLogProbs:
    """Arrange a server's answer; raises ValueError if it does not match ``token_ids``."""
    if places is None or len(places) != len(token_ids):
        raise ValueError("prompt_logprobs are not those of the prompt")
    import numpy as np  # noqa: PLC0415 - only children of distillation need it

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


def _without_token_ids() -> EngineFailed:
    return EngineFailed(
        "the server returns text only: rollouts need a vLLM that returns token ids and "
        "log-probabilities (return_token_ids, since 0.10.2)",
        code="engine_without_token_ids",
    )
