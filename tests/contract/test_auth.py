"""API keys of the gateway, which does not bind a public address without them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
import pytest

from services.core.web.auth import hash_key
from tests.support.processes import REPOSITORY, free_port, running, running_gateway
from tests.support.waiting import wait_for

KEY = "temper-right-key"
OTHER = "temper-other-key"
TOOLS = ("/run_code", "/run_jupyter", "/v1/run_cases", "/retrieve", "/v1/search")
OPEN = ("/healthz", "/readyz", "/metrics")


@dataclass(frozen=True)
class Locked:
    """A gateway with two keys."""

    url: str
    log: Path
    http: httpx.Client

    def ask(self, method: str, path: str, key: str | None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        return self.http.request(method, path, headers=headers)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    folder = tmp_path_factory.mktemp("locked")
    settings = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_API_KEY_HASHES": f"{hash_key(OTHER).upper()}, {hash_key(KEY)}",
        "TEMPER_LOG_LEVEL": "DEBUG",
        # An unreachable address: a port that is free now may be taken by another test.
        "TEMPER_SANDBOX_URL": "http://127.0.0.1:9",
        "TEMPER_RETRIEVAL_URL": "http://127.0.0.1:9",
    }
    log = folder / "gateway.log"
    with running_gateway(settings, log) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield Locked(url, log, client)


def operations(locked: Locked) -> list[tuple[str, str]]:
    document = locked.http.get("/openapi.json").json()
    return [
        (method.upper(), re.sub(r"\{[^}]*\}", "unknown", path))
        for path, methods in document["paths"].items()
        for method in methods
    ]


@pytest.mark.parametrize("key", [None, "temper-wrong-key", hash_key(KEY)])
def test_every_route_except_health_requires_a_known_key(locked: Locked, key: str | None) -> None:
    answers = {(m, p): locked.ask(m, p, key) for m, p in operations(locked)}

    assert len(answers) > 20
    for (_, path), answer in answers.items():
        if path in OPEN:
            assert answer.status_code == 200
        else:
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_every_route_accepts_a_known_key(locked: Locked, key: str) -> None:
    statuses = {
        locked.ask(method, path, key).status_code
        for method, path in operations(locked)
        if path not in TOOLS
    }

    assert statuses <= {200, 400, 404}
    assert {locked.ask("POST", path, key).status_code for path in TOOLS} == {503}  # no listener


@pytest.mark.parametrize("header", [f"Basic {KEY}", KEY, f"Bearer{KEY}", "Bearer", f"Token {KEY}"])
def test_only_the_bearer_scheme_is_accepted(locked: Locked, header: str) -> None:
    answer = locked.http.get("/v1/jobs", headers={"Authorization": header})

    assert answer.status_code == 401


def test_the_openai_package_raises_an_authentication_error(locked: Locked) -> None:
    with (
        openai.OpenAI(base_url=f"{locked.url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.models.list()
    assert caught.value.code == "invalid_api_key"

    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key=KEY) as client:
        assert client.models.list().data == []


def test_a_large_upload_without_a_key_gets_a_response(locked: Locked) -> None:
    answer = locked.http.post(
        "/v1/files", files={"file": ("big", bytes(30 << 20))}, data={"purpose": "evals"}
    )

    assert answer.status_code == 401


def test_idempotency_keys_are_scoped_to_the_api_key(locked: Locked) -> None:
    def upload(key: str, content: bytes) -> httpx.Response:
        return locked.http.post(
            "/v1/files",
            files={"file": ("a", content)},
            data={"purpose": "evals"},
            headers={"Authorization": f"Bearer {key}", "Idempotency-Key": "same"},
        )

    assert upload(KEY, b"one").status_code == 200
    assert upload(OTHER, b"two").status_code == 200
    assert upload(KEY, b"two").status_code == 409


def test_keys_are_neither_logged_nor_in_metrics(locked: Locked) -> None:
    for key in (KEY, "temper-wrong-key"):
        locked.ask("GET", f"/v1/jobs/{key[:4]}", key)
    metrics = locked.ask("GET", "/metrics", None).text

    output = metrics + locked.log.read_text()
    assert "temper_http_requests_total" in output
    for secret in (KEY, OTHER, "temper-wrong-key", hash_key(KEY)):
        assert secret not in output


def refused(tmp_path: Path, *arguments: str, **settings: str) -> str:
    """Start a gateway that must refuse to start; return its output."""
    process = subprocess.run(
        [sys.executable, "-m", "services.api", "--port", str(free_port()), *arguments],
        cwd=REPOSITORY,
        env={"TEMPER_HOME": str(tmp_path / "home"), **settings},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert process.returncode == 2
    assert not (tmp_path / "home").exists()
    return process.stderr


@pytest.mark.drill
@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_binding_a_public_address_without_keys_is_rejected(tmp_path: Path, host: str) -> None:
    output = refused(tmp_path, "--host", host)

    assert "needs API keys: set TEMPER_API_KEY_HASHES" in output
    assert "Traceback" not in output
    assert len(output.splitlines()) == 1


@pytest.mark.drill
def test_a_plain_key_instead_of_its_hash_is_rejected_without_echoing_it(tmp_path: Path) -> None:
    output = refused(tmp_path, TEMPER_API_KEY_HASHES="temper-a-real-key")

    assert "TEMPER_API_KEY_HASHES: not the SHA-256 of a key" in output
    assert "temper-a-real-key" not in output


@pytest.mark.drill
@pytest.mark.parametrize(
    "settings", [{"TEMPER_ALLOW_KEYLESS": "true"}, {"TEMPER_API_KEY_HASHES": hash_key(KEY)}]
)
def test_binding_a_public_address_can_be_allowed_explicitly(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    port = free_port()
    settings = {"TEMPER_HOME": str(tmp_path / "home"), **settings}
    arguments = ["--host", "0.0.0.0", "--port", str(port)]

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    with running("services.api", arguments, settings, tmp_path / "gateway.log"):
        assert wait_for(answers, "the gateway answers")


def test_with_keys_any_host_and_origin_are_accepted(locked: Locked) -> None:
    headers = {
        "Host": "temper.example.org",
        "Origin": "https://dashboard.example.org",
        "Authorization": f"Bearer {KEY}",
    }

    assert locked.http.get("/v1/jobs", headers=headers).status_code == 200
