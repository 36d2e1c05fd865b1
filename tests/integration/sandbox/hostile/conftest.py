"""The service in both tiers, under attack by hostile programs."""

import os
from collections.abc import Iterator

import pytest

from tests.support.programs.reachable import launcher
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import Sandbox, running_sandbox

LIMITS = {
    "TEMPER_SANDBOX_DISK_MB": "64",
    "TEMPER_SANDBOX_PROCESSES": "64",
    "TEMPER_SANDBOX_CONCURRENCY": "4",
}


@pytest.fixture(
    scope="session", params=["full", pytest.param("container", marks=pytest.mark.variant)]
)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """A service of one tier with small limits; it must survive every test."""
    tier: str = request.param
    if tier == "container" and os.geteuid() != 0:
        pytest.skip("only root can give every program a user id of its own")
    folder = tmp_path_factory.mktemp(f"hostile-{tier}")
    settings = {**LIMITS, "TEMPER_SANDBOX_TIER": tier, "THE_SERVICES_SECRET": "hunter2"}
    starting = launcher(tier, installed_runtime("sandbox").python)
    with running_sandbox(folder, launcher=starting, **settings) as sandbox:
        yield sandbox
    assert "Traceback" not in (folder / "sandbox.log").read_text()


@pytest.fixture(autouse=True)
def still_serves(sandbox: Sandbox) -> Iterator[None]:
    """The next program runs, whatever the last one did."""
    yield
    assert sandbox.output("print(1 + 1)") == "2\n"


@pytest.fixture(autouse=True, scope="module")
def every_slot_still_serves(sandbox: Sandbox) -> Iterator[None]:
    """After the programs of a file, as many run as the service has slots."""
    yield
    for _ in range(int(LIMITS["TEMPER_SANDBOX_CONCURRENCY"])):
        assert sandbox.output("print(1 + 1)") == "2\n"


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    """Whether the tier gives programs namespaces of their own."""
    return bool(request.node.callspec.params["sandbox"] == "full")
