"""Authentication of a sandbox that requires keys."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from services.core.web.auth import hash_key
from tests.support.sandbox import Sandbox, running_sandbox

KEY = "temper-right-key"
OPEN = {"/healthz", "/readyz", "/metrics", "/v1/ping"}
PROGRAM = {"language": "python", "code": "print(1)"}


@dataclass(frozen=True)
class Locked:
    """A sandbox with one key, and its log."""

    sandbox: Sandbox
    log: Path

    def ask(self, method: str, path: str, header: str | None) -> httpx.Response:
        headers = {"Authorization": header} if header is not None else {}
        # The first request for languages waits until every toolchain has been started once.
        return self.sandbox.http.request(method, path, headers=headers, timeout=240)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    folder = tmp_path_factory.mktemp("locked")
    settings = {"TEMPER_API_KEY_HASHES": hash_key(KEY), "TEMPER_LOG_LEVEL": "DEBUG"}
    with running_sandbox(folder, **settings) as sandbox:
        yield Locked(sandbox, folder / "sandbox.log")


def operations(locked: Locked) -> list[tuple[str, str]]:
    document = locked.sandbox.http.get("/openapi.json").json()
    return [
        (method.upper(), re.sub(r"\{[^}]*\}", "unknown", path))
        for path, methods in document["paths"].items()
        for method in methods
    ]


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


REFUSED = [None, "Bearer wrong", f"Bearer {hash_key(KEY)}", basic(KEY, ""), basic("x", "wrong")]


@pytest.mark.parametrize("header", REFUSED)
def test_every_route_except_health_requires_the_key(locked: Locked, header: str | None) -> None:
    asked = operations(locked)

    assert len(asked) > 10
    for method, path in asked:
        answer = locked.ask(method, path, header)
        if path in OPEN:
            assert answer.status_code == 200
        else:
            assert (answer.status_code, path) == (401, path)
            assert answer.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("header", [f"Bearer {KEY}", basic("x", KEY), basic("", KEY)])
def test_every_route_accepts_the_key(locked: Locked, header: str) -> None:
    for method, path in operations(locked):
        if path.startswith("/v1/scripts"):  # these ask for a second key
            assert locked.ask(method, path, header).status_code == 403
        else:
            assert locked.ask(method, path, header).status_code in {200, 204, 404, 422}


def test_the_key_can_be_given_in_the_url(locked: Locked) -> None:
    place = urlsplit(locked.sandbox.url).netloc

    answer = httpx.post(f"http://x:{KEY}@{place}/run_code", json=PROGRAM, timeout=60)

    assert answer.json()["run_result"]["stdout"] == "1\n"


def test_large_bodies_are_not_read_without_the_key(locked: Locked) -> None:
    body = b'{"code": "' + b"x" * (30 << 20)

    assert locked.sandbox.http.post("/run_code", content=body).status_code == 401


def test_keys_and_code_are_not_logged(locked: Locked) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"language": "python", "code": "print('a private matter')"}
    locked.sandbox.http.post("/run_code", json=body, headers=headers)
    metrics = locked.ask("GET", "/metrics", None).text

    output = metrics + locked.log.read_text()
    for secret in (KEY, hash_key(KEY), "a private matter"):
        assert secret not in output
