"""Readiness names each dependency; causes are only logged."""

from collections.abc import Mapping
from threading import Event

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from services.core.web import health


def broken() -> None:
    raise ConnectionError("redis://user:hunter2@broker is away")


def service(checks: Mapping[str, health.Check]) -> TestClient:
    app = FastAPI()
    app.include_router(health.health_router(checks, CollectorRegistry()))
    return TestClient(app)


def ready(checks: Mapping[str, health.Check]) -> tuple[int, dict[str, object]]:
    answer = service(checks).get("/readyz")
    return answer.status_code, answer.json()


def test_a_service_is_ready_when_every_dependency_is() -> None:
    status, body = ready({"database": lambda: None, "broker": lambda: None})

    assert status == 200
    assert body == {"status": "ready", "dependencies": {"database": "ok", "broker": "ok"}}


def test_a_failing_dependency_is_named_without_its_address() -> None:
    status, body = ready({"database": lambda: None, "broker": broken})

    assert status == 503
    assert body == {
        "status": "not ready",
        "dependencies": {"database": "ok", "broker": "unavailable (ConnectionError)"},
    }


def test_services_beside_it_that_do_not_run_do_not_make_it_unready() -> None:
    app = FastAPI()
    others = {"trainer": "failed (exits: 7)"}
    app.include_router(health.health_router({}, CollectorRegistry(), lambda: others))

    answer = TestClient(app).get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "dependencies": {}, "degraded": others}


def test_a_hanging_dependency_does_not_delay_the_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.05)
    released = Event()

    async def answer_at_once() -> None:
        """Not in a thread, which might need longer than the limit to begin."""

    def hang() -> None:
        released.wait(60)

    with service({"database": answer_at_once, "broker": hang}) as client:
        answer = client.get("/readyz")
        released.set()

    assert answer.status_code == 503
    assert answer.json()["dependencies"] == {"database": "ok", "broker": "no answer within 0 s"}
