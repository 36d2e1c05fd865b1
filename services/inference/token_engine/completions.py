"""Any vLLM server by its URL: POST /v1/completions with token ids both ways."""

from collections.abc import Callable, Sequence

from pydantic import BaseModel, Field

from services.contracts.base import JsonObject
from services.inference.token_engine.base import (
    EngineFailed,
    FinishReason,
    PromptLogProbs,
    SampledTokens,
    TurnSampling,
)
from services.inference.token_engine.vllm import (
    PromptPlaces,
    Read,
    ServedEngine,
    TokenId,
    checked,
    read_prompt,
    sampling_fields,
)

ROUTE = "/completions"


class CompletionsTokenEngine(ServedEngine):
    """Samples from an external server with fixed weights.

    ``base_url`` includes /v1. Log-probabilities follow the server's --logprobs-mode: by default at
    temperature 1, without top_p and top_k. All tokens have version ``policy_version``.

    The server must be a vLLM that returns token ids (0.10.2 or newer): with another, requests
    fail with the code ``engine_without_token_ids``. Use it as an async context manager.
    """

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""

        def read(reply: bytes) -> SampledTokens:
            choice = _choice(reply)
            if choice.token_ids is None or choice.logprobs is None:
                raise _without_token_ids()
            log_probs = checked(choice.token_ids, choice.logprobs.token_logprobs)
            versions = (self._policy_version,) * len(log_probs)
            return SampledTokens(tuple(choice.token_ids), log_probs, versions, choice.finish_reason)

        fields = {**sampling_fields(sampling), "logprobs": 0, "return_token_ids": True}
        return await self._ask(token_ids, fields, read)

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int = 1) -> PromptLogProbs:
        """Log-probabilities of ``token_ids`` and of the top-k tokens at each position.

        ``top_k`` is at most the server's --max-logprobs (default 20). Raises `EngineFailed`.
        """

        def read(reply: bytes) -> PromptLogProbs:
            places = _choice(reply).prompt_logprobs
            if places is None:
                raise _without_token_ids()
            return read_prompt(token_ids, places, top_k)

        fields: JsonObject = {"max_tokens": 1, "prompt_logprobs": top_k}
        return await self._ask(token_ids, fields, read)

    async def _ask(
        self, token_ids: Sequence[int], fields: JsonObject, read: Callable[[bytes], Read]
    ) -> Read:
        payload = {"model": self._model, "prompt": list(token_ids), **fields}
        return await self._ask_server(ROUTE, payload, read)


class _LogProbs(BaseModel):
    token_logprobs: list[float | None]


class _Choice(BaseModel):
    finish_reason: FinishReason
    token_ids: list[TokenId] | None = None
    logprobs: _LogProbs | None = None
    prompt_logprobs: PromptPlaces | None = None


class _Answer(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


def _choice(reply: bytes) -> _Choice:
    return _Answer.model_validate_json(reply).choices[0]


def _without_token_ids() -> EngineFailed:
    return EngineFailed(
        "the server returns text only: rollouts need a vLLM that returns token ids and "
        "log-probabilities (return_token_ids, since 0.10.2)",
        code="engine_without_token_ids",
    )
