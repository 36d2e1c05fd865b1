"""A service that is killed leaves no program behind, not even one in the middle of a run."""

import contextlib
import os
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.sandbox.pool.programs import arguments
from tests.support.programs.reachable import launcher
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import running_sandbox
from tests.support.waiting import wait_for

CHILDREN = 20
FAMILY = f"""
import os, time
for _ in range({CHILDREN}):
    if os.fork() == 0:
        os.setsid()
        os.execlp('sleep', 'sleep', '77008')
time.sleep(600)
"""


def ended(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.parametrize("tier", ["full", "container"])
def test_a_killed_service_leaves_no_process(tmp_path: Path, tier: str) -> None:
    if tier == "container" and os.geteuid() != 0:
        pytest.skip("only root can give every program a user id of its own")
    starting = launcher(tier, installed_runtime("sandbox").python)
    with running_sandbox(tmp_path, launcher=starting, TEMPER_SANDBOX_TIER=tier) as sandbox:
        service = psutil.Process(sandbox.process.pid)

        def family() -> list[psutil.Process] | None:
            found = service.children(recursive=True)
            asleep = [process for process in found if "77008" in arguments(process)]
            return found if len(asleep) == CHILDREN else None

        with pytest.raises(httpx.TransportError), sandbox.started(FAMILY, run_timeout=60) as answer:
            processes = wait_for(family, "the program and its children have started")
            sandbox.process.kill()
            answer()

    wait_for(lambda: all(map(ended, processes)), "every process of the service has ended")
