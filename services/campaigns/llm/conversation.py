"""Queries the LLM: calls are paid for once, and invalid JSON is repaired in further turns."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from services.campaigns.llm.answers import CachedAnswer, KeptAnswer
from services.campaigns.run.effects import Effect
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed, Waiting
from services.contracts.base import JsonObject
from services.contracts.campaigns.llms import CampaignLlm
from services.contracts.campaigns.loops import Failure
from services.contracts.errors import JobFailed
from services.contracts.validation import first_fault
from services.inference.chat_answers import CHARACTERS_PER_TOKEN, TokenUsage
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import FailureKind, ServiceFailed, model_retries
from services.jobs.campaign_records import CACHED, PROBLEM, REFUSED
from services.metrics.fences import fenced_blocks
from services.parsing.foreign_json import parse_foreign

ANSWER_SECONDS = 600.0
REPAIRS = 2
"""Repair turns after a response that is not the requested JSON."""

MOST_IN_A_ROW = 20
"""Calls without a usable answer, one after another, that end a campaign."""
_REFUSES_EVERY_REQUEST = frozenset({401, 402, 403, 404, 405, 410, 421})

_COMPLETE = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_UNENDED = re.compile(r"\A\s*<think>(?!.*</think>)", re.DOTALL)
# Some chat templates write <think> at the end of the prompt. The end has a line of its own then,
# unlike a script's "</think>", which only follows a "<think>".
_OPENED_BY_THE_TEMPLATE = re.compile(
    r"\A(?:(?!<think>).)*?^</think>[ \t]*$\s*", re.DOTALL | re.MULTILINE
)

Answer = TypeVar("Answer", bound=BaseModel)


class Conversation:
    """A chat with the LLM within one step; ``name`` keys its calls."""

    def __init__(self, run: CampaignRun, name: str, system: str) -> None:
        self._run = run
        self._name = name
        self._messages: list[JsonObject] = [{"role": "system", "content": system}]
        self._calls = 0
        self._last: tuple[str, ChatRequest, Effect] | None = None

    def ask(self, text: str) -> str:
        """Send a message; return the response, without its reasoning if the campaign is configured
        so.

        Raises `StepFailed` if the endpoint refuses this request, `BudgetSpent`, `Waiting` while
        the endpoint fails, and `JobFailed` if it refuses every one.
        """
        self._messages.append({"role": "user", "content": text})
        self._calls += 1
        key = f"{self._name}.{self._calls}"
        request = _request(self._run.llm, self._messages)
        effect = self._run.pay_once(key, lambda: _call(self._run, key, request))
        if REFUSED in effect.response:
            problem = effect.response[PROBLEM]
            raise StepFailed(Failure.ENVIRONMENT, f"the LLM refused the request: {problem}")
        self._last = (key, request, effect)
        answer = str(effect.response["answer"])
        if self._run.llm.strip_reasoning:
            answer = without_reasoning(answer)
        self._messages.append({"role": "assistant", "content": answer})
        return answer

    def share_answer(self) -> None:
        """Store the last response in the cache, since it was usable."""
        if self._last is None or CACHED in self._last[2].response:
            return
        key, request, effect = self._last
        answer = CachedAnswer(
            str(effect.response["answer"]), effect.prompt_tokens, effect.completion_tokens
        )
        place = self._run.idempotency_key(key)
        self._run.shared_answers.keep(place, str(self._run.llm.base_url), request, answer)

    def ask_json(self, text: str, kind: type[Answer]) -> Answer:
        """Request a JSON object, and have the LLM repair an invalid one.

        Raises `StepFailed` when it does not succeed.
        """
        for _ in range(1 + REPAIRS):
            try:
                parsed = _parse(self.ask(text), kind)
            except ValueError as error:
                problem = str(error)
                text = f"Your answer cannot be used: {problem}. Answer with the JSON object alone."
            else:
                self.share_answer()
                return parsed
        raise StepFailed(Failure.ENVIRONMENT, f"the LLM gave no usable JSON: {problem}")


def _request(llm: CampaignLlm, messages: Sequence[JsonObject]) -> ChatRequest:
    return ChatRequest(
        model=llm.model,
        messages=list(messages),
        max_tokens=llm.max_tokens,
        temperature=llm.temperature,
        frequency_penalty=llm.frequency_penalty,
        presence_penalty=llm.presence_penalty,
    )


async def _call(run: CampaignRun, key: str, request: ChatRequest) -> Effect:
    place, messages = run.idempotency_key(key), request.messages
    kept = KeptAnswer(run.folder, place, request)
    completion = kept.read()
    if completion is None:
        url = str(run.llm.base_url)
        cached = await asyncio.to_thread(run.shared_answers.find, place, url, request)
        if cached is not None:
            return _free(cached, messages)
    try:
        answer = (
            await _paid_for(run, request, kept)
            if completion is None
            else ChatCompletion.of(completion, 0.0, 0)
        )
    except ServiceFailed as failed:
        return _without_answer(run, request, failed)
    text = answer.content or ""
    usage = answer.usage or TokenUsage(_estimate(json.dumps(messages)), _estimate(text))
    arrived = 1 + answer.unreadable
    return Effect(
        {"messages": messages[-1:], "answer": text},
        prompt_tokens=usage.prompt * arrived,
        completion_tokens=usage.completion * arrived,
    )


def _without_answer(run: CampaignRun, request: ChatRequest, failed: ServiceFailed) -> Effect:
    """The record of a call without a usable answer. What arrived of it was paid for, so it is
    counted. Raises `JobFailed` after ``MOST_IN_A_ROW`` of them."""
    what = "An answer of the LLM was given up" if failed.unreadable else "The LLM refused a request"
    run.note(f"{what}: {failed.message}")
    in_a_row = 1 + run.calls_without_answer(MOST_IN_A_ROW)
    if in_a_row >= MOST_IN_A_ROW:
        message = f"{in_a_row} calls in a row got no usable answer: {failed.message}"
        raise JobFailed(message, param="llm", code="llm_refused") from failed
    response = {"messages": request.messages[-1:], "answer": "", PROBLEM: failed.message}
    if not failed.unreadable:
        return Effect({**response, REFUSED: True})
    endless = failed.kind is FailureKind.ENDLESS
    return Effect(
        response,
        prompt_tokens=_estimate(json.dumps(request.messages)) * failed.unreadable,
        completion_tokens=run.llm.max_tokens
        if endless
        else _estimate(failed.body) * failed.unreadable,
    )


def _free(cached: CachedAnswer, messages: Sequence[JsonObject]) -> Effect:
    """A response from the cache; the transcript records what it has saved."""
    saved = cached.prompt_tokens + cached.completion_tokens
    return Effect({"messages": list(messages[-1:]), "answer": cached.text, CACHED: saved})


async def _paid_for(run: CampaignRun, request: ChatRequest, kept: KeptAnswer) -> ChatCompletion:
    run.budget.check_llm()
    llm = run.llm
    client = InferenceClient(
        str(llm.base_url),
        run.settings.endpoint_keys.get(llm.origin),
        ANSWER_SECONDS,
        retries=model_retries(llm.attempts, first_wait_seconds=llm.retry_seconds),
        headers={"Idempotency-Key": kept.idempotency_key},
    )
    try:
        async with client:
            return await ask_endpoint(client, llm, request, kept.write)
    except ServiceFailed as error:
        if error.unreadable or _is_of_the_request(error):
            raise
        if error.transient:
            raise Waiting(f"waiting for the LLM: {error.message}") from error
        raise JobFailed(error.message, param="llm", code="llm_refused") from error


def _is_of_the_request(error: ServiceFailed) -> bool:
    """Whether the endpoint works and refused this one request, as for its length or content."""
    return (
        not error.transient
        and error.status in range(400, 500)
        and error.status not in _REFUSES_EVERY_REQUEST
    )


def _estimate(text: str) -> int:
    """Token count of a text, for endpoints that report none."""
    return len(text) // CHARACTERS_PER_TOKEN


def _parse(text: str, kind: type[Answer]) -> Answer:
    """Parse the first fenced block of JSON, or the text from its first to its last brace. Reasoning
    is skipped: it may contain drafts."""
    text = without_reasoning(text)
    blocks = fenced_blocks(text)
    fenced = next((block.content for block in blocks if block.language in {"", "json"}), "")
    begin, end = text.find("{"), text.rfind("}")
    content = fenced or (text[begin : end + 1] if 0 <= begin < end else "")
    if not content.strip():
        raise ValueError("it holds no JSON object")
    try:
        return kind.model_validate(parse_foreign(content))
    except ValidationError as error:
        raise ValueError(first_fault(error).sentence("object")) from None


def without_reasoning(answer: str) -> str:
    """The text after the leading reasoning; empty if the reasoning does not end."""
    if _UNENDED.match(answer):
        return ""
    reasoning = _COMPLETE.match(answer) or _OPENED_BY_THE_TEMPLATE.match(answer)
    return answer if reasoning is None else answer[reasoning.end() :]


NEWER_NAME = "max_completion_tokens"
MOST_NEWER = 1000
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

    OpenAI's newer models reject ``max_tokens``, and many servers know no other name. A rejection
    that mentions the newer name is retried once with the other name.
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
    elif len(_newer) < MOST_NEWER:
        _newer.add(place)
    return completion


def _named(request: ChatRequest, is_newer: bool) -> ChatRequest:
    if not is_newer:
        return request
    fields = request.model_dump(exclude={"max_tokens"})
    return _NewerRequest(**fields, max_completion_tokens=request.max_tokens)
