"""Rate limits and usage of each key for served models."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.api.serving.forward import Inference
from services.api.serving.locator import Locator
from services.api.serving.metering import Meter, TokenUsage
from services.api.serving.rate_limits import RateLimits
from services.api.serving.usage import UsageLog
from services.api.settings import ApiSettings
from services.contracts.errors import RateLimited, Unavailable
from services.core.web.auth import hash_key
from tests.support.engines.serving_worker import ServingWorker
from tests.support.waiting import wait_for

STEP_SECONDS = 60.0
KEYS = ("key-of-one", "key-of-another")
Meanwhile = Callable[[Callable[[], Any]], Future[Any]]

USAGE = {"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2}


def event(value: object) -> bytes:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


WORDS = [event({"choices": [{"delta": {"content": text}}]}) for text in ('"usage":{}', "b\n\nc")]
LAST = event({"choices": [], "usage": USAGE})
DONE = b"data: [DONE]\n\n"


@given(st.lists(st.integers(0, 300)), st.booleans())
def test_a_response_is_unchanged_however_it_is_chunked(cuts: list[int], added: bool) -> None:
    shown = b"".join([*WORDS, DONE])
    whole = b"".join([*WORDS, LAST, DONE])
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    meter = Meter(strip_usage=added)

    passed = [
        meter.feed(piece, last=number == len(pieces)) for number, piece in enumerate(pieces, 1)
    ]

    assert b"".join(passed) == (shown if added else whole)
    assert meter.usage() == TokenUsage(prompt_tokens=7, completion_tokens=2)


def test_usage_is_found_before_large_fields() -> None:
    """vLLM writes ``prompt_logprobs`` after ``usage``."""
    logprobs = [{"1": {"logprob": -0.5, "decoded_token": '"usage":{'}}] * 1000
    body = json.dumps({"choices": [], "usage": USAGE, "prompt_logprobs": logprobs}).encode()
    meter = Meter(strip_usage=False)

    for start in range(0, len(body), 1000):
        meter.feed(body[start : start + 1000], last=False)

    assert meter.usage() == TokenUsage(prompt_tokens=7, completion_tokens=2)


def test_a_stream_that_is_cut_off_counts_its_events() -> None:
    meter = Meter(strip_usage=True)
    for word in WORDS:
        assert meter.feed(word, last=False) == word
    assert meter.usage() == TokenUsage(completion_tokens=2)


def test_each_key_has_its_own_limits_and_they_refill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    limits = RateLimits(requests=2, tokens=600)

    limits.admit("one")
    limits.admit("one")
    with pytest.raises(RateLimited, match="2 requests a minute") as refused:
        limits.admit("one")
    limits.admit("another")

    assert refused.value.retry_after == 30.0
    assert refused.value.headers["x-ratelimit-remaining-requests"] == "0"
    now[0] += 60.0
    limits.spend("one", 650)
    with pytest.raises(RateLimited, match="600 tokens a minute") as refused:
        limits.admit("one")
    assert refused.value.headers["x-ratelimit-remaining-requests"] == "2"
    now[0] += refused.value.retry_after
    limits.admit("one")
    assert limits.headers("one")["x-ratelimit-limit-tokens"] == "600"


def test_without_limits_there_are_no_headers() -> None:
    limits = RateLimits(None, None)
    limits.admit("one")
    limits.spend("one", 10**9)
    limits.admit("one")
    assert limits.headers("one") == {}


def test_a_request_beyond_those_in_progress_leaves_the_limit_as_it_is(tmp_path: Path) -> None:
    settings = ApiSettings(home=tmp_path, max_serving_calls=1, requests_per_minute=5)
    inference = Inference(Mock(Locator), Mock(UsageLog), settings)
    inference.calls = 1

    with pytest.raises(Unavailable, match="1 requests to served models are in progress"):
        asyncio.run(inference.answer("/chat/completions", AsyncMock(), "one"))

    assert inference.rates.headers("one")["x-ratelimit-remaining-requests"] == "5"


@pytest.fixture
def settings() -> dict[str, Any]:
    hashes = [hash_key(key) for key in KEYS]
    return {
        "serving_wait_seconds": 60.0,
        "api_key_hashes": hashes,
        "requests_per_minute": 3,
        "tokens_per_minute": 1000,
    }


@pytest.mark.parametrize("url", [KEYS[0]], indirect=True)
def test_a_key_sees_its_usage_and_reaches_its_limit(
    url: str, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    def client(key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def ask(key: str, **options: Any) -> Any:
        question: Any = [{"role": "user", "content": "hello"}]
        with client(key) as asked:
            answer = asked.chat.completions.create(model="base", messages=question, **options)
            return list(answer) if options else answer

    first = meanwhile(lambda: ask(KEYS[0]))
    serving = worker.serve_next()
    first.result(STEP_SECONDS)
    chunks = ask(KEYS[0], stream=True)
    assert all(chunk.choices for chunk in chunks)
    assert serving.engine.bodies[-1]["stream_options"] == {"include_usage": True}
    ask(KEYS[0], stream=True, stream_options={"include_usage": True})
    answered = 3
    with pytest.raises(openai.RateLimitError) as refused:
        while True:  # the limit refills by one every 20 s
            ask(KEYS[0])
            answered += 1
    ask(KEYS[1])

    assert refused.value.code == "rate_limit_exceeded"
    assert int(refused.value.response.headers["retry-after"]) <= 20
    assert refused.value.response.headers["x-ratelimit-limit-requests"] == "3"
    (day,) = wait_for(lambda: usage(url, KEYS[0], answered), "the usage is written")
    tokens = (day["prompt_tokens"], day["completion_tokens"])
    assert (day["model"], *tokens) == ("base", 3 * answered, 2 * answered)
    (day,) = wait_for(lambda: usage(url, KEYS[1], 1), "the usage is written")
    assert (day["prompt_tokens"], day["completion_tokens"]) == (3, 2)


def usage(url: str, key: str, requests: int) -> list[dict[str, Any]] | None:
    """The usage of a key once it has ``requests`` requests."""
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.get(f"{url}/v1/usage", headers=headers, timeout=STEP_SECONDS)
    found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
    return found if sum(each["requests"] for each in found) == requests else None
