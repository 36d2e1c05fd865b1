"""One request to an LLM, under the name that its endpoint has for the limit of an answer.

OpenAI's newer models refuse ``max_tokens``, and many servers know nothing else.
"""

from collections.abc import Callable
from http import HTTPStatus

from services.contracts.campaign_llms import CampaignLlm
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed

NEWER_NAME = "max_completion_tokens"
MOST = 1000
"""Endpoints and models that are remembered."""

_newer: set[tuple[str, str]] = set()
"""Endpoints and models that have refused the older name."""


class _NewerRequest(ChatRequest):
    max_completion_tokens: int | None = None


async def ask_endpoint(
    client: InferenceClient,
    llm: CampaignLlm,
    request: ChatRequest,
    keep: Callable[[bytes], None],
) -> ChatCompletion:
    """Ask for a completion, whose body ``keep`` is given; raises `ServiceFailed`.

    A refusal that speaks of the newer name is answered once, with the other of the two names.
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
