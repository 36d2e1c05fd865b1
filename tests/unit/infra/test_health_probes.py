"""The health probes of containers, run as the compose file runs them."""

import http.server
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from infra.compose.health import probe
from services.jobs.worker.heartbeat import touch_heartbeat
from services.jobs.workers import SILENCE_SECONDS
from tests.support.processes import REPOSITORY, free_port

PROBE = REPOSITORY / "infra" / "compose" / "health" / "probe.py"


def run_probe(*arguments: str, heartbeat: Path | None = None) -> tuple[int, str]:
    """Exit code and output of a probe."""
    variables = {"TEMPER_HEARTBEAT_FILE": str(heartbeat)} if heartbeat is not None else {}
    command = [sys.executable, "-I", "-S", str(PROBE), *arguments]
    run = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stderr == ""
    return run.returncode, run.stdout


def test_a_worker_is_healthy_while_its_heartbeat_is_fresh(tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    code, said = run_probe("worker", heartbeat=heartbeat)
    assert code == 1
    assert "no heartbeat yet" in said

    touch_heartbeat(heartbeat)
    assert run_probe("worker", heartbeat=heartbeat) == (0, "")

    old = time.time() - 3600
    os.utime(heartbeat, (old, old))
    code, said = run_probe("worker", heartbeat=heartbeat)
    assert code == 1
    assert "3600 seconds ago" in said


def test_a_probe_is_no_stricter_than_the_gateway(tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    touch_heartbeat(heartbeat)
    silent = time.time() - SILENCE_SECONDS
    os.utime(heartbeat, (silent, silent))
    assert run_probe("worker", heartbeat=heartbeat) == (0, "")


def test_a_worker_without_a_heartbeat_file_is_unhealthy() -> None:
    assert run_probe("worker") == (1, "TEMPER_HEARTBEAT_FILE is not set\n")


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_a_service_is_healthy_when_it_says_that_it_is_ready(status: int, healthy: bool) -> None:
    class Service(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code, said = run_probe("service", str(server.server_port))
        server.shutdown()
    assert (code == 0) is healthy
    assert ("503" in said) is not healthy


def test_a_service_that_does_not_answer_is_unhealthy() -> None:
    code, said = run_probe("service", str(free_port()))
    assert code == 1
    assert "does not answer" in said


@pytest.mark.parametrize("arguments", [["worker"], ["service", "1"]])
def test_a_probe_imports_next_to_nothing(arguments: list[str]) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(PROBE), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stderr.count("import time:") < 60


def test_a_probe_of_a_healthy_container_stays_until_there_is_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "healthy"
    looks: list[str | None] = []
    monkeypatch.setattr(probe, "look", lambda _: looks.pop(0))
    monkeypatch.setattr(probe, "LOOK_SECONDS", 0.0)
    arguments = ["--stay", str(mark), "worker"]

    looks[:] = ["no heartbeat yet", None]
    assert probe.main(arguments) == 1  # it starts
    assert probe.main(arguments) == 0  # the first success is news

    looks[:] = [None, None, None, "the last heartbeat was 31 seconds ago"]
    assert probe.main(arguments) == 1
    looks[:] = [None]
    assert probe.main(arguments) == 0  # its recovery is news

    monkeypatch.setattr(probe, "STAY_SECONDS", 0.0)
    looks[:] = [None]
    assert probe.main(arguments) == 0  # after some minutes another one stays


def test_a_probe_that_cannot_keep_its_file_looks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "look", lambda _: None)
    assert probe.main(["--stay", str(tmp_path / "none" / "healthy"), "worker"]) == 0
