"""A model behind an OpenAI-compatible URL, as an evaluation asks it."""

import asyncio
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.contracts.evaluations import Sampling
from services.evaluator.evaluation.answers import Answer, Unanswered
from services.evaluator.evaluation.failures import Failure
from services.inference.clients.chat import (
    ChatRequest,
    InferenceClient,
    InferenceError,
    model_retries,
)

QUEUE_SECONDS = 600.0
SLOWEST_TOKENS_PER_SECOND = 10.0
"""An attempt may wait for its turn and then generate this slowly before it is given up."""


class Endpoint:
    """Asks one model of one server, with the sampling of the evaluation."""

    def __init__(
        self,
        client: InferenceClient,
        model: str,
        sampling: Sampling,
        stop_token_ids: Sequence[int] = (),
    ) -> None:
        self._client = client
        self._model = model
        self._sampling = sampling.model_dump()
        if stop_token_ids:
            self._sampling["stop_token_ids"] = list(stop_token_ids)

    async def ask(self, messages: Sequence[JsonObject]) -> Answer | Unanswered:
        """Answer a conversation; an answer without text, such as a tool call, is empty."""
        request = ChatRequest(model=self._model, messages=list(messages), **self._sampling)
        try:
            completion = await self._client.chat(request)
        except InferenceError as error:
            return Unanswered(Failure(error.status, error.message), error.attempts)
        usage = completion.usage
        return Answer(
            text=completion.content or "",
            finish_reason=completion.finish_reason,
            prompt_tokens=usage.prompt if usage else None,
            completion_tokens=usage.completion if usage else None,
            attempts=completion.attempts,
            latency_seconds=completion.latency_seconds,
        )

    async def watch(self) -> None:
        """Never return: of a server elsewhere, only asking shows whether it is gone."""
        await asyncio.Event().wait()


def connect(
    base_url: str, api_key: str | None, sampling: Sampling, connections: int
) -> InferenceClient:
    """A client that is as patient as answers of this length can take."""
    attempt_seconds = QUEUE_SECONDS + sampling.max_tokens / SLOWEST_TOKENS_PER_SECOND
    patience = model_retries(deadline_seconds=3 * attempt_seconds)
    return InferenceClient(
        base_url, api_key, attempt_seconds, retries=patience, max_connections=connections
    )
