"""The health probes of containers, run as the compose file runs them."""

import http.server
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from services.core.jobs.workers import SILENCE_SECONDS
from services.core.worker.heartbeat import touch_heartbeat
from tests.support.processes import REPOSITORY, free_port

PROBES = REPOSITORY / "infra" / "compose" / "health"


def probe(name: str, *arguments: str, heartbeat: Path | None = None) -> tuple[int, str]:
    """Exit code and output of a probe."""
    variables = {"TEMPER_HEARTBEAT_FILE": str(heartbeat)} if heartbeat is not None else {}
    command = [sys.executable, "-I", "-S", str(PROBES / name), *arguments]
    run = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stderr == ""
    return run.returncode, run.stdout


def test_a_worker_is_healthy_while_its_heartbeat_is_fresh(tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    code, said = probe("worker.py", heartbeat=heartbeat)
    assert code == 1
    assert "no heartbeat yet" in said

    touch_heartbeat(heartbeat)
    assert probe("worker.py", heartbeat=heartbeat) == (0, "")

    old = time.time() - 3600
    os.utime(heartbeat, (old, old))
    code, said = probe("worker.py", heartbeat=heartbeat)
    assert code == 1
    assert "3600 seconds ago" in said


def test_a_probe_is_no_stricter_than_the_gateway(tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    touch_heartbeat(heartbeat)
    silent = time.time() - SILENCE_SECONDS
    os.utime(heartbeat, (silent, silent))
    assert probe("worker.py", heartbeat=heartbeat) == (0, "")


def test_a_worker_without_a_heartbeat_file_is_unhealthy() -> None:
    assert probe("worker.py") == (1, "TEMPER_HEARTBEAT_FILE is not set\n")


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
        code, said = probe("service.py", str(server.server_port))
        server.shutdown()
    assert (code == 0) is healthy
    assert ("503" in said) is not healthy


def test_a_service_that_does_not_answer_is_unhealthy() -> None:
    code, said = probe("service.py", str(free_port()))
    assert code == 1
    assert "does not answer" in said


@pytest.mark.parametrize(("name", "argument"), [("worker.py", []), ("service.py", ["1"])])
def test_a_probe_imports_next_to_nothing(name: str, argument: list[str]) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(PROBES / name), *argument]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stderr.count("import time:") < 60
