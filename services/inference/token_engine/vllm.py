"""vLLM's own route for tokens, POST /inference/v1/generate (0.32, with --enable-scale-out)."""

from collections.abc import Callable, Sequence

from pydantic import BaseModel, Field

from services.contracts.base import JsonObject
from services.inference.clients.json_service import Retries
from services.inference.token_engine.base import (
    TURN_RETRIES,
    TURN_TIMEOUT,
    FinishReason,
    PromptLogProbs,
    PromptPlaces,
    Read,
    SampledTokens,
    ServedEngine,
    TokenId,
    TurnSampling,
    checked,
    read_prompt,
    sampling_fields,
)

ROUTE = "/inference/v1/generate"
UNNAMED = "default"
"""vLLM's name for the initial weight version."""


class VllmTokenEngine(ServedEngine):
    """Samples from our own server, started with `Routes.tokens`; an async context manager.

    ``base_url`` includes /v1; ``model`` is a name that the server knows. Tokens carry the weight
    version last set on the server, ``policy_version`` before the first. ``timeout`` applies to one
    attempt; a paused server does not answer until it is resumed. At most ``max_connections``
    requests are in flight.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        timeout: float = TURN_TIMEOUT,
        retries: Retries = TURN_RETRIES,
        max_connections: int = 4096,
        policy_version: int = 0,
    ) -> None:
        super().__init__(
            base_url.rstrip("/").removesuffix("/v1"),
            api_key,
            model,
            timeout=timeout,
            retries=retries,
            max_connections=max_connections,
            policy_version=policy_version,
        )

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        return await self.generate_as(self._model, self._policy_version, token_ids, sampling)

    async def generate_as(
        self, model: str, policy_version: int, token_ids: Sequence[int], sampling: TurnSampling
    ) -> SampledTokens:
        """Sample from another of the server's models, such as an adapter."""

        def read(reply: bytes) -> SampledTokens:
            return _Answer.model_validate_json(reply).choices[0].sampled(policy_version)

        fields = {
            **sampling_fields(sampling),
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
            places = _Answer.model_validate_json(reply).prompt_logprobs
            return read_prompt(token_ids, places, top_k)

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
        return await self._ask_server(ROUTE, payload, read)


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
    finish_reason: FinishReason
    logprobs: _LogProbs | None = None
    weight_versions: list[_Span] | None = None

    def sampled(self, policy_version: int) -> SampledTokens:
        """The sampled turn; raises ValueError if the fields are inconsistent."""
        content = self.logprobs.content if self.logprobs else []
        return SampledTokens(
            tuple(self.token_ids),
            checked(self.token_ids, [token.logprob for token in content]),
            self._versions(policy_version),
            self.finish_reason,
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
