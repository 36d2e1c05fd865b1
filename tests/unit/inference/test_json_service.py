"""Posting JSON to services that refuse, are slow, or are broken."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from services.inference.clients import json_service
from services.inference.clients.json_service import JsonService, ServiceAnswer
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed, seconds_to_wait
from tests.support.processes import free_port
from tests.support.virtual_time import run_advancing_clock
from tests.unit.inference.scripted_server import (
    ScriptedServer,
    answer,
    break_off,
    hang,
    reset,
    running_server,
)

ALL = frozenset(FailureKind)
SOON = Retries(3, 60.0, frozenset({503}), ALL, first_wait_seconds=0.001)
ONCE = Retries(1, 60.0)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def post(
    url: str,
    payload: Any = None,
    *,
    retries: Retries = SOON,
    timeout: float = 30.0,
    read: Callable[[bytes], Any] = json.loads,
    moments: Sequence[Callable[[], object]] = (),
) -> ServiceAnswer[Any]:
    """The answer to a request; an hour passes at each of the ``moments``."""

    async def ask() -> ServiceAnswer[Any]:
        service = JsonService(url, "sk-secret", timeout=timeout, retries=retries, connections=4)
        async with service:
            return await service.post(payload or {}, read)

    return run_advancing_clock(ask(), *moments)


def failed(url: str, **options: Any) -> ServiceFailed:
    with pytest.raises(ServiceFailed) as caught:
        post(url, **options)
    return caught.value


def test_the_payload_and_api_key_are_sent(server: ScriptedServer) -> None:
    server.script = [answer(body={"sum": 3})]

    came = post(server.url, {"text": "é\ud800"})
    assert (came.value, came.attempts) == ({"sum": 3}, 1)
    headers, body = server.requests[0]
    assert headers["authorization"] == "Bearer sk-secret"
    assert body == {"text": "é\ud800"}


@pytest.mark.parametrize("bad_response", [reset, break_off, answer(503), answer(body=b"<html>")])
def test_transient_failures_are_retried(server: ScriptedServer, bad_response: Any) -> None:
    server.script = [bad_response, bad_response, answer(body=5)]

    came = post(server.url)
    assert (came.value, came.attempts) == (5, 3)


@pytest.mark.parametrize(
    ("bad_response", "expected"),
    [
        (reset, FailureKind.BROKEN_OFF),
        (break_off, FailureKind.BROKEN_OFF),
        (answer(500), FailureKind.STATUS),
        (answer(302, location="http://elsewhere/"), FailureKind.STATUS),
        (answer(body=b"<html>"), FailureKind.UNREADABLE),
        (answer(body=b"[" * 100_000), FailureKind.UNREADABLE),
    ],
)
def test_failures_outside_the_retry_policy_are_not_retried(
    server: ScriptedServer, bad_response: Any, expected: FailureKind
) -> None:
    server.script = [bad_response]

    error = failed(server.url, retries=Retries(3, 60.0))

    assert error.kind is expected
    assert error.attempts == len(server.requests) == 1


def test_a_timed_out_attempt_is_retried(server: ScriptedServer) -> None:
    server.script = [hang, answer(body=5)]

    assert post(server.url, moments=[lambda: server.requests]).attempts == 2


def test_all_attempts_share_one_deadline(server: ScriptedServer) -> None:
    server.script = [hang]

    error = failed(server.url, retries=Retries(1000, 0.3, kinds=ALL), timeout=0.2)

    assert error.kind is FailureKind.TIMED_OUT
    assert len(server.requests) <= 2


def test_refused_connections_are_retried_and_reported() -> None:
    retries = Retries(3, 60.0, first_wait_seconds=0.001)

    error = failed(f"http://127.0.0.1:{free_port()}/", retries=retries)

    assert error.kind is FailureKind.UNSENT
    assert error.attempts == 3


def test_retry_after_overrides_backoff(server: ScriptedServer) -> None:
    server.script = [answer(503, retry_after="0"), answer(body=1)]
    patient = Retries(2, 60.0, frozenset({503}), first_wait_seconds=3600, longest_wait_seconds=3600)

    assert post(server.url, retries=patient).attempts == 2


def test_an_oversized_response_is_refused(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_service, "LARGEST_ANSWER", 1 << 20)
    server.script = [answer(body=b"1" * (3 << 20))]

    error = failed(server.url)

    assert "more than 1 MiB" in error.message
    assert len(server.requests) == 1


def test_compressed_answers_cannot_bypass_the_limit(server: ScriptedServer) -> None:
    server.script = [answer(body=b"\x1f\x8b" + b"\0" * 50, content_encoding="gzip")]

    assert failed(server.url, retries=ONCE).kind is FailureKind.UNREADABLE


@pytest.mark.parametrize("direct", [True, False])
def test_direct_services_bypass_proxies(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.script = [answer(body=1)]
    monkeypatch.setattr(json_service, "LOOPBACK", frozenset())

    async def ask() -> int:
        service = JsonService(
            server.url, None, timeout=30.0, retries=ONCE, connections=1, direct=direct
        )
        async with service:
            return int((await service.post({}, json.loads)).value)

    if direct:
        assert asyncio.run(ask()) == 1
    else:
        with pytest.raises(ServiceFailed):
            asyncio.run(ask())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("invalid_api_key", "no such key (invalid_api_key)"),
        ("no such key", "no such key"),
        ("", "no such key"),
        (None, "no such key"),
        (401, "no such key"),  # as vLLM repeats the status
    ],
)
def test_the_code_of_a_refusal_is_in_the_error(
    server: ScriptedServer, code: object, told: str
) -> None:
    server.script = [answer(401, body={"error": {"message": "no such key", "code": code}})]

    error = failed(server.url)

    assert error.message == f"{server.url} answered 401: {told}"


def test_the_api_key_is_redacted_from_errors(server: ScriptedServer) -> None:
    server.script = [answer(401, b"no such key: sk-secret")]

    error = failed(server.url)

    assert error.body == "no such key: ***"
    assert "sk-secret" not in error.message


def test_the_values_of_headers_are_redacted_from_errors(server: ScriptedServer) -> None:
    server.script = [answer(401, b"sent 1 and a long token")]
    headers = {"X-Token": "a long token", "X-Version": "1"}

    async def ask() -> None:
        async with JsonService(
            server.url, None, timeout=30.0, retries=ONCE, connections=1, headers=headers
        ) as service:
            await service.post({}, json.loads)

    with pytest.raises(ServiceFailed) as caught:
        asyncio.run(ask())
    assert caught.value.body == "sent 1 and ***"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2", 2.0), ("-3", 0.0), ("", None), ("inf", None), ("nan", None), ("soon", None)],
)
def test_retry_after_seconds_are_parsed(header: str, seconds: float | None) -> None:
    assert seconds_to_wait(header) == seconds


def test_a_past_retry_after_date_means_no_wait() -> None:
    assert seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
