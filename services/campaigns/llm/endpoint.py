"""One request to an LLM, with the name that its endpoint uses for the token limit.

OpenAI's newer models reject ``max_tokens``, and many servers know no other name.
"""

from collections.abc import Callable
from http import HTTPStatus

from services.contracts.campaigns.llms import CampaignLlm
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed

NEWER_NAME = "max_completion_tokens"
MOST = 1000
"""Maximum number of remembered endpoints and models."""

_newer: set[tuple[str, str]] = set()
"""Endpoints and models that have rejected ``max_tokens``."""


class _NewerRequest(ChatRequest):
    max_completion_tokens: int | None = None


async def ask_endpoint(
    client: InferenceClient,
    llm: CampaignLlm,
    request: ChatRequest,
    keep: Callable[[bytes], None],
) -> ChatCompletion:
    """Request a completion and pass its body to ``keep``; raises `ServiceFailed`.

    A rejection that mentions the newer name is retried once with the other name.
    """
    place = (str(llm.base_url), request.model)
    is_newer = place in _newer
    try:
        return await client.chat(_named(request, is_newer), keep=keep)
    except ServiceFailed as failed:
        if failed.status != HTTPStatus.BAD_REQUEST or NEWER_NAME not in failed.body:
            raise
    completion = await client.chat(_named(request, not is_newer), keep=keep)
    if is_newer:
        _newer.discard(place)
    elif len(_newer) < MOST:
        _newer.add(place)
    return completion


def _named(request: ChatRequest, is_newer: bool) -> ChatRequest:
    if not is_newer:
        return request
    fields = request.model_dump(exclude={"max_tokens"})
    return _NewerRequest(**fields, max_completion_tokens=request.max_tokens)
