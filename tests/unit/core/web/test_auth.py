"""Which hosts need keys, and which credentials are accepted."""

import asyncio
import base64
from types import SimpleNamespace
from typing import Annotated

import pytest
from fastapi import Body, FastAPI
from starlette.requests import Request
from starlette.types import Message

from services.contracts.errors import AuthenticationFailed, ConfigurationError
from services.core.web.auth import (
    ANONYMOUS,
    Authenticator,
    KeyFirst,
    check_exposure,
    hash_key,
    is_loopback,
)

LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"]
EXPOSED = ["0.0.0.0", "::", "", "192.168.1.4", "10.0.0.1", "example.org", "localhost.evil.org"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, [], keyless_allowed=False)


@pytest.mark.parametrize("host", EXPOSED)
def test_other_addresses_need_keys_or_explicit_permission(host: str) -> None:
    check_exposure(host, [hash_key("k")], keyless_allowed=False)
    check_exposure(host, [], keyless_allowed=True)
    with pytest.raises(ConfigurationError, match="TEMPER_API_KEY_HASHES"):
        check_exposure(host, [], keyless_allowed=False)


def asking(header: str | None) -> Request:
    headers = [(b"authorization", header.encode())] if header is not None else []
    return Request({"type": "http", "headers": headers})


def basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


KEY = "temper:key"
BASIC_HEADERS = [basic(f"x:{KEY}"), basic(f":{KEY}"), "basic " + basic(f"name:{KEY}")[6:]]


@pytest.mark.parametrize("header", BASIC_HEADERS)
def test_a_key_is_accepted_as_basic_password_where_allowed(header: str) -> None:
    hashes = [hash_key("other"), hash_key(KEY)]

    assert Authenticator(hashes, basic=True)(asking(header)) == hash_key(KEY)
    with pytest.raises(AuthenticationFailed):
        Authenticator(hashes)(asking(header))


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !",
        "Basic /w==",
        basic(KEY.replace(":", "")),
        basic(f"{KEY}:"),
        basic("x:wrong"),
        "Bearer wrong",
        f"Token {KEY}",
        f"Bearer {hash_key(KEY)}",
    ],
)
def test_other_credentials_are_refused(header: str | None) -> None:
    with pytest.raises(AuthenticationFailed):
        Authenticator([hash_key(KEY)], basic=True)(asking(header))


def test_a_bearer_key_is_always_accepted() -> None:
    for basic_too in (False, True):
        authenticator = Authenticator([hash_key(KEY)], basic=basic_too)
        assert authenticator(asking(f"Bearer {KEY}")) == hash_key(KEY)


def test_without_keys_every_caller_is_anonymous() -> None:
    assert Authenticator([], basic=True)(asking(None)) == ANONYMOUS


@pytest.mark.parametrize(("key", "status"), [(None, 401), ("wrong", 401), ("right", 200)])
def test_the_key_is_checked_before_the_body_is_read(key: str | None, status: int) -> None:
    app = FastAPI()
    app.add_middleware(KeyFirst)
    authenticator = Authenticator([hash_key("right")])
    app.state.context = SimpleNamespace(tool_authenticator=authenticator)

    @app.post("/")
    def echo(body: Annotated[dict[str, int], Body()]) -> dict[str, int]:
        return body

    read = []

    async def post() -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            read.append("body")
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
        await app(
            {**scope, "headers": [*headers, (b"content-type", b"application/json")]}, receive, send
        )
        return sent

    assert asyncio.run(post())[0]["status"] == status
    assert bool(read) == (status == 200)
