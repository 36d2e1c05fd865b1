"""Every error becomes OpenAI's error body, with a request id and no internals."""

import gzip
import itertools
import logging
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException

from services.api.database_errors import install_database_errors
from services.contracts import errors
from services.core.web.app import create_app


class Item(BaseModel):
    """A body."""

    name: str


@asynccontextmanager
async def nothing(_app: FastAPI) -> Any:
    yield


@pytest.fixture
def app() -> FastAPI:
    app = create_app(
        title="test",
        description="",
        registry=CollectorRegistry(),
        checks={"fine": lambda: None},
        lifespan=nothing,
        keyless_hosts=[],
        larger_bodies={},
    )
    install_database_errors(app)

    @app.post("/items")
    def make(item: Item) -> Item:
        return item

    return app


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def fail_with(app: FastAPI, error: Exception) -> None:
    @app.get("/fail")
    def fail() -> None:
        raise error


@pytest.mark.parametrize(
    ("error", "status", "type_", "code"),
    [
        (errors.InvalidRequest("no"), 400, "invalid_request_error", "invalid_request"),
        (errors.AuthenticationFailed("no"), 401, "authentication_error", "invalid_api_key"),
        (errors.PermissionDenied("no"), 403, "permission_error", "permission_denied"),
        (errors.NotFound("no"), 404, "invalid_request_error", "not_found"),
        (errors.Conflict("no", code="taken"), 409, "conflict_error", "taken"),
        (errors.PayloadTooLarge("no"), 413, "invalid_request_error", "payload_too_large"),
        (errors.Unavailable("no"), 503, "server_error", "unavailable"),
        (errors.StorageFull("no"), 507, "server_error", "storage_full"),
        (errors.JobFailed("no"), 500, "server_error", "job_failed"),
        (HTTPException(418, "no"), 418, "invalid_request_error", "im_a_teapot"),
    ],
)
def test_an_error_has_its_status_type_and_code(
    app: FastAPI, client: TestClient, error: Exception, status: int, type_: str, code: str
) -> None:
    fail_with(app, error)

    answer = client.get("/fail")

    assert answer.status_code == status
    assert answer.json() == {
        "error": {"message": "no", "type": type_, "param": None, "code": code, "details": None}
    }
    assert answer.headers["x-request-id"].startswith("req-")


@pytest.mark.parametrize("error", [errors.Conflict("no"), errors.StorageFull("no")])
def test_errors_that_retries_cannot_fix_say_so(
    app: FastAPI, client: TestClient, error: Exception
) -> None:
    fail_with(app, error)

    assert client.get("/fail").headers["x-should-retry"] == "false"


def test_a_bug_is_logged_and_not_shown(
    app: FastAPI, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    fail_with(app, RuntimeError("the password is hunter2"))

    with caplog.at_level(logging.ERROR):
        answer = client.get("/fail")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OperationalError("SELECT secret", {}, Exception("down")), 503, "database_unavailable"),
        (DataError("SELECT secret", {}, Exception("NUL")), 400, "invalid_request"),
    ],
)
def test_database_errors_are_not_shown(
    app: FastAPI, client: TestClient, error: Exception, status: int, code: str
) -> None:
    fail_with(app, error)

    answer = client.get("/fail")

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/nowhere", 404, "not_found"), ("PATCH", "/items", 405, "method_not_allowed")],
)
def test_unknown_routes_and_methods_have_the_same_body(
    client: TestClient, method: str, path: str, status: int, code: str
) -> None:
    answer = client.request(method, path)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_valid_request_id_of_the_client_is_kept(client: TestClient) -> None:
    def answered(given: str) -> str:
        return str(client.get("/healthz", headers={"x-request-id": given}).headers["x-request-id"])

    assert answered("trace-1.2_3") == "trace-1.2_3"
    assert answered("two words").startswith("req-")
    assert answered("x" * 101).startswith("req-")


def test_the_number_of_metric_series_is_bounded(client: TestClient) -> None:
    for n in range(20):
        client.get(f"/nowhere/{n}")
        client.request(f"METHOD{n}", "/items")

    counted = [
        line
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("temper_http_requests_total")
    ]
    assert counted == [
        'temper_http_requests_total{method="GET",route="unmatched",status="404"} 20.0',
        'temper_http_requests_total{method="other",route="/items",status="405"} 20.0',
    ]


def test_a_compressed_body_is_refused_as_such(client: TestClient) -> None:
    body = gzip.compress(b'{"name": "a"}')

    answer = client.post("/items", content=body, headers={"Content-Encoding": "gzip"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
    plain = {"Content-Encoding": "identity"}
    assert client.post("/items", json={"name": "a"}, headers=plain).status_code == 200


def test_head_answers_with_the_head_of_get(app: FastAPI, client: TestClient) -> None:
    @app.get("/endless")
    def endless() -> StreamingResponse:
        return StreamingResponse(itertools.repeat("x"), headers={"x-kind": "stream"})

    got, asked = client.get("/healthz"), client.head("/healthz")

    assert (asked.status_code, asked.content) == (got.status_code, b"")
    assert asked.headers["content-length"] == got.headers["content-length"]
    assert client.head("/endless").headers["x-kind"] == "stream"
    assert client.head("/items").status_code == 405
    assert client.head("/nothing").status_code == 404
