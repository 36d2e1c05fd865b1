"""A service of each tier for the tests of a process, and sessions that end with a test."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.integration.sandbox.sessions.client import SessionClient
from tests.support.programs.reachable import launcher
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import Sandbox, running_sandbox


@pytest.fixture(
    scope="session", params=["full", pytest.param("container", marks=pytest.mark.variant)]
)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """A service of one tier, which allows as many sessions as tests need at once."""
    tier: str = request.param
    if tier == "container" and os.geteuid() != 0:
        pytest.skip("only root can give every program a user id of its own")
    folder = tmp_path_factory.mktemp(f"sessions-{tier}")
    settings = {
        "TEMPER_SANDBOX_TIER": tier,
        "TEMPER_SANDBOX_MAX_SESSIONS": "4",
        "TEMPER_SANDBOX_OUTPUT_BYTES": "200000",
    }
    starting = launcher(tier, installed_runtime("sandbox").python)
    with running_sandbox(folder, launcher=starting, **settings) as service:
        SessionClient.create_first(service.http).delete()
        yield service
    # A kernel that its own cells kept from starting is quoted within a line.
    assert "\nTraceback" not in (folder / "sandbox.log").read_text()


@pytest.fixture
def open_session(sandbox: Sandbox) -> Iterator[Callable[..., SessionClient]]:
    """Creates a session with these fields."""
    opened: list[SessionClient] = []

    def create(**fields: object) -> SessionClient:
        session = SessionClient.create(sandbox.http, **fields)
        opened.append(session)
        return session

    yield create
    for session in opened:
        session.delete()


@pytest.fixture
def session(open_session: Callable[..., SessionClient]) -> SessionClient:
    return open_session()
