"""Pages of the sites that the operator names may use the gateway, others may not."""

from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from services.api.app import open_to_pages
from services.api.settings import ApiSettings
from services.core.web.app import create_app

SITE = "https://app.example"


@asynccontextmanager
async def nothing(_app: FastAPI) -> Any:
    yield


@pytest.fixture(params=[[], None], ids=["keyless", "with keys"])
def client(request: pytest.FixtureRequest) -> TestClient:
    app = create_app(
        title="test",
        description="",
        registry=CollectorRegistry(),
        checks={},
        lifespan=nothing,
        keyless_hosts=request.param,
        larger_bodies={},
        origins=[SITE],
    )
    return TestClient(open_to_pages(app, [SITE]))


@pytest.mark.parametrize("origin", [SITE, "https://other.example"])
def test_answers_are_readable_for_named_sites_alone(client: TestClient, origin: str) -> None:
    preflight = client.options(
        "/v1/chat/completions",
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        },
    )
    answer = client.get("/healthz", headers={"Origin": origin, "Host": "localhost"})

    readable = "access-control-allow-origin"
    assert (preflight.headers.get(readable) == SITE) == (origin == SITE)
    assert (answer.headers.get(readable) == SITE) == (origin == SITE)
    assert answer.status_code in ({200} if origin == SITE else {200, 403})


@pytest.mark.parametrize("given", ["https://app.example", "https://app.example:443/"])
def test_an_origin_is_written_as_browsers_send_it(given: str) -> None:
    assert ApiSettings.model_validate({"cors_origins": given}).cors_origins == [SITE]
