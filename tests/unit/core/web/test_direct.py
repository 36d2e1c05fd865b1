"""The fast path to a route does everything that the middlewares do."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from services.contracts.errors import Conflict
from services.core.web.app import create_app
from services.core.web.direct import DirectRoutes

BODY_BYTES = 1000


class Plain(APIRoute):
    """A route whose function takes the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            response: Response = await self.endpoint(request)
            return response

        return handle


@asynccontextmanager
async def nothing(_app: FastAPI) -> AsyncIterator[None]:
    yield


def application() -> FastAPI:
    router = APIRouter(route_class=Plain)

    @router.post("/echo")
    async def echo(request: Request) -> Response:
        body = await request.body()
        if body == b"conflict":
            raise Conflict("it is there already")
        if body == b"missing":
            raise KeyError("its handler knows it")
        if body == b"fault":
            raise ZeroDivisionError
        return Response(body, headers={"x-seen": request.headers["x-request-id"]})

    app = create_app(
        title="Test",
        description="",
        registry=CollectorRegistry(),
        checks={},
        lifespan=nothing,
        keyless_hosts=["temper.example.org"],
        larger_bodies={"/echo": BODY_BYTES},
    )
    app.include_router(router)

    @app.exception_handler(LookupError)
    async def missing(_request: Request, error: LookupError) -> Response:
        return Response(f"missing: {error}", status_code=410)

    app.state.router = router
    return app


@pytest.fixture
def long() -> TestClient:
    return TestClient(application(), "http://localhost", raise_server_exceptions=False)


@pytest.fixture
def short() -> TestClient:
    app = application()
    direct = DirectRoutes(app, routers=[app.state.router], kind=Plain)
    return TestClient(direct, "http://localhost", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"something", {}),
        (b"something", {"x-request-id": "req-1"}),
        (b"conflict", {}),
        (b"fault", {}),
        (b"missing", {}),
        (b"x" * (BODY_BYTES + 1), {}),
        (b"something", {"host": "stranger.example.org"}),
        (b"something", {"host": "temper.example.org:80"}),
        (b"something", {"origin": "http://stranger.example.org"}),
    ],
)
def test_fast_path_and_router_respond_alike(
    long: TestClient, short: TestClient, body: bytes, headers: dict[str, str]
) -> None:
    one, other = (way.post("/echo", content=body, headers=headers) for way in (long, short))

    assert (one.status_code, one.content) == (other.status_code, other.content)
    assert set(one.headers) == set(other.headers)
    if "x-request-id" in headers:
        assert other.headers["x-request-id"] == "req-1"
    if other.status_code == 200:
        assert other.headers["x-seen"] == other.headers["x-request-id"]
    counted = [_counts(way) for way in (long, short)]
    assert counted[0] == counted[1]


def test_other_requests_are_routed_normally(short: TestClient) -> None:
    assert short.get("/healthz").json() == {"status": "ok"}
    assert short.get("/echo").status_code == 405
    assert short.post("/nosuch").status_code == 404


def _counts(client: TestClient) -> list[str]:
    lines = client.get("/metrics").text.splitlines()
    return [line for line in lines if line.startswith("temper_http_requests_total")]
