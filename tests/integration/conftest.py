"""A gateway and stub workers over each pair of database and broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gateway import GatewayClient
from tests.support.processes import Process, running_gateway
from tests.support.servers import running_postgres, running_redis

LEASE_SECONDS = 60.0
"""Longer than a busy machine delays a worker's renewal."""

SHORT_LEASE_SECONDS = 8.0
"""For workers that a test kills: recovery of their job takes this long."""

GRACE_SECONDS = 1.0


@dataclass
class Platform:
    """A running gateway and the settings of its workers."""

    folder: Path
    settings: dict[str, str]
    client: GatewayClient
    workers: list[Process]

    def start_worker(
        self,
        module: str = "tests.support.jobs.stub_worker",
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Process:
        settings = {**self.settings, "TEMPER_LEASE_SECONDS": str(lease_seconds)}
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = Process(module, [], settings, log)
        self.workers.append(worker)
        return worker

    def job_file(self, job_id: str, name: str) -> Path:
        return self.folder / "home" / "jobs" / job_id / name


@pytest.fixture(
    params=["sqlite+files", pytest.param("postgres+redis", marks=pytest.mark.variant)],
    ids=["sqlite-files", "postgres-redis"],
)
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Platform]:
    with contextlib.ExitStack() as stack:
        settings = {
            "TEMPER_HOME": str(tmp_path / "home"),
            "TEMPER_GRACE_SECONDS": str(GRACE_SECONDS),
            "TEMPER_RETRY_SECONDS": "0.1",
            "TEMPER_RECONCILE_SECONDS": "0.5",
            "TEMPER_HOST_NAME": "test-host",
        }
        if "redis" in request.param:
            folder = tmp_path / "redis"
            folder.mkdir()
            settings["TEMPER_BROKER_URL"] = stack.enter_context(running_redis(folder))
        if "postgres" in request.param:
            settings["TEMPER_DATABASE_URL"] = stack.enter_context(running_postgres())
        url = stack.enter_context(running_gateway(settings, tmp_path / "gateway.log"))
        client = stack.enter_context(GatewayClient(url, tmp_path / "home"))
        platform = Platform(tmp_path, settings, client, [])
        yield platform
        for worker in platform.workers:
            worker.end()
