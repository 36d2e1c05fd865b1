"""A service without keys refuses foreign hosts (DNS rebinding) and origins (CSRF)."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from services.core.web.browser_guard import BrowserGuard


def status(host: str, origin: str | None = None) -> int:
    app = Starlette(
        routes=[Route("/", lambda _: PlainTextResponse("in"), methods=["GET", "POST"])],
        middleware=[Middleware(BrowserGuard, allowed_hosts=["Temper.Example.org"])],
    )
    headers = {"Host": host} | ({"Origin": origin} if origin is not None else {})
    return TestClient(app).post("/", headers=headers).status_code


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:8080",
        "api:8080",
        "127.0.0.1:8080",
        "192.0.2.7",
        "[::1]",
        "[2001:db8::1]:8080",
        "temper.example.org",
        "TEMPER.example.ORG:443",
    ],
)
def test_addresses_undotted_names_and_allowed_names_are_accepted(host: str) -> None:
    assert status(host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "a.temper.example.org",
        "temper.example.org.",
        "localhost@evil.example",
        "evil.example#localhost",
        "999.1.1.1",
        "[::1",
        ":8080",
        "",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    assert status(host) == 403


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("LOCALHOST:8080", "http://localhost:8080"),
        ("temper.example.org", "https://temper.example.org"),
        ("[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_same_origin_requests_are_accepted(host: str, origin: str) -> None:
    assert status(host, origin) == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "http://evil.example/http://localhost:8080",
        "null",
        "",
        "localhost:8080",
    ],
)
def test_cross_origin_requests_are_refused(origin: str) -> None:
    assert status("localhost:8080", origin) == 403
