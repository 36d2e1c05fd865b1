"""The proxy through which data scripts query LLMs: a subset of OpenAI's API that holds the keys.

A script knows the proxy's address, the model names, and its own token. Everything it sends is
untrusted and bounded; only known fields are forwarded.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from pydantic import Field, ValidationError, field_validator

from services.campaigns.llm.conversation import ask_endpoint
from services.campaigns.scripts.calls import Asking, CallRefused, ScriptCalls, script_of
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.llms import CampaignLlm
from services.contracts.errors import AuthenticationFailed, ConfigurationError
from services.contracts.validation import first_fault
from services.core.db.engine import DATABASE_AWAY, Database
from services.inference.chat_answers import CHARACTERS_PER_TOKEN, TokenUsage
from services.inference.clients.chat import ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed, model_retries

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 4 << 20
ANSWER_SECONDS = 240.0
"""Shorter than the silence after which the sandbox closes a connection."""
END_SECONDS = 2.0
START_SECONDS = 30.0
_MESSAGE_CHARACTERS = 500
_IGNORED = frozenset({"user", "store", "metadata", "service_tier"})


class ProxiedChat(ChatRequest):
    """A chat completion as scripts may request it: one choice, not streamed."""

    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    n: int | None = None
    stream: bool | None = None

    @field_validator("n", "stream")
    @classmethod
    def _one_whole_answer(cls, value: int | None) -> int | None:
        if value not in (None, False, 1) or value is True:
            raise ValueError("is not offered here")
        return value

    def for_endpoint(self, llm: CampaignLlm) -> ChatRequest:
        """The request to the endpoint."""
        asked = self.max_completion_tokens or self.max_tokens or llm.max_tokens
        fields = self.model_dump(exclude={"max_completion_tokens", "n", "stream"})
        return ChatRequest(**{**fields, "max_tokens": min(asked, llm.max_tokens)})


class LlmProxy:
    """The proxy's routes."""

    def __init__(self, database: Database, settings: CampaignSettings) -> None:
        self._settings = settings
        self._calls = ScriptCalls(database)

    def application(self) -> web.Application:
        """The ASGI application."""
        application = web.Application(
            client_max_size=MAX_BODY_BYTES, middlewares=[web.middleware(_errors)]
        )
        application.add_routes(
            [
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._complete),
            ]
        )
        return application

    async def _models(self, request: web.Request) -> web.Response:
        llms = _llms(await self._asking(request))
        models = [{"id": name, "object": "model", "owned_by": "campaign"} for name in llms]
        return web.json_response({"object": "list", "data": models})

    async def _complete(self, request: web.Request) -> web.Response:
        asking = await self._asking(request)
        chat = _chat(await request.read())
        llm = _llms(asking).get(chat.model)
        if llm is None:
            names = ", ".join(_llms(asking))
            return _error(404, f"model is none of this campaign's: {names}", "model_not_found")
        asked = chat.for_endpoint(llm)
        prompt = len(asked.model_dump_json()) // CHARACTERS_PER_TOKEN
        async with self._calls.one(asking, llm, prompt, asked.max_tokens or llm.max_tokens):
            return await self._answer(asking, llm, asked, prompt)

    async def _answer(
        self, asking: Asking, llm: CampaignLlm, asked: ChatRequest, prompt: int
    ) -> web.Response:
        key = self._settings.endpoint_keys.get(llm.origin)
        bodies: list[bytes] = []
        client = InferenceClient(
            str(llm.base_url),
            key,
            ANSWER_SECONDS,
            retries=model_retries(
                llm.attempts, ANSWER_SECONDS, first_wait_seconds=llm.retry_seconds
            ),
            max_connections=1,
        )
        try:
            async with client:
                completion = await ask_endpoint(client, llm, asked, bodies.append)
        except ServiceFailed as failed:
            if failed.unreadable:  # it was paid for
                answered = len(failed.body) // CHARACTERS_PER_TOKEN
                tokens = prompt * failed.unreadable, answered * failed.unreadable
                await self._calls.used(asking, llm, *tokens)
            return _error(502, _without(failed.message, key), "llm_failed")
        answered = len(completion.content or "") // CHARACTERS_PER_TOKEN
        usage = completion.usage or TokenUsage(prompt, answered)
        arrived = 1 + completion.unreadable
        await self._calls.used(asking, llm, usage.prompt * arrived, usage.completion * arrived)
        body = _without(bodies[-1].decode(errors="replace"), key, most=None)
        return web.Response(body=body.encode(), content_type="application/json")

    async def _asking(self, request: web.Request) -> Asking:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        script_id = script_of(self._settings, token) if scheme.lower() == "bearer" else None
        if script_id is None:
            raise AuthenticationFailed("send OPENAI_API_KEY as it is in the environment")
        return await self._calls.asking(script_id)


def _llms(asking: Asking) -> dict[str, CampaignLlm]:
    llms = asking.request.script_llms
    return {} if llms is None else llms.by_model


def _chat(body: bytes) -> ProxiedChat:
    """Read a body; raises `ValueError` with the reason if it is invalid."""
    try:
        value: Any = json.loads(body)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("the body is not a JSON object")
    known = {name: part for name, part in value.items() if name not in _IGNORED}
    try:
        return ProxiedChat.model_validate(known)
    except ValidationError as error:
        fault = first_fault(error)
        where = fault.field or "body"
        raise ValueError(f"{where[:100]}: {fault.message}") from None


async def _errors(request: web.Request, handler: Any) -> web.StreamResponse:
    """Errors in OpenAI's format, so that its clients show them."""
    try:
        answer: web.StreamResponse = await handler(request)
    except CallRefused as refused:
        return _error(429, f"the limit of {refused.limit} is reached", "insufficient_quota")
    except AuthenticationFailed as failed:
        return _error(401, failed.message, failed.code)
    except web.HTTPException as error:
        return _error(error.status, error.reason, "invalid_request")
    except ValueError as error:
        return _error(400, str(error), "invalid_request")
    except DATABASE_AWAY:
        return _error(503, "the budget cannot be read now", "unavailable")
    return answer


def _error(status: int, message: str, code: str) -> web.Response:
    # OpenAI's clients try again otherwise.
    headers = {} if status >= 500 else {"x-should-retry": "false"}
    error = {"message": message[:_MESSAGE_CHARACTERS], "type": code, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)


def _without(text: str, key: str | None, most: int | None = _MESSAGE_CHARACTERS) -> str:
    """A text from the endpoint, which may repeat the key."""
    return (text.replace(key, "***") if key else text)[:most]


@contextmanager
def serving_proxy(database: Database, settings: CampaignSettings) -> Iterator[None]:
    """Serve the proxy in a thread. Raises `ConfigurationError` if its port is taken."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="llm-proxy", daemon=True)
    thread.start()
    runner = web.AppRunner(
        LlmProxy(database, settings).application(),
        access_log=None,
        shutdown_timeout=END_SECONDS,
    )

    async def start() -> None:
        await runner.setup()
        host, port = settings.campaign_proxy_host, settings.campaign_proxy_port
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigurationError(
                f"TEMPER_CAMPAIGN_PROXY_PORT: cannot listen on {host}:{port}: {error.strerror}"
            ) from error

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(START_SECONDS)
        yield
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(START_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)
        loop.close()
