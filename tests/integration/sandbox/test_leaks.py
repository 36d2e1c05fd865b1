"""A service uses no more after any number of programs than before."""

import asyncio
import os
import random
import signal
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import httpx
import psutil
import pytest

from tests.integration.sandbox.drill import Run
from tests.integration.sandbox.footprint import (
    Footprint,
    Memory,
    footprint,
    group_folders,
    host_mounts,
    living,
    memory,
    preparing,
    slots,
    tree,
)
from tests.integration.sandbox.mixed_runs import runs
from tests.integration.sandbox.mixed_sessions import SESSIONS, SessionUse
from tests.integration.sandbox.orphanage import GIVEN_BACK
from tests.support.processes import Process, running_service
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.sandbox import PREPARED, running_sandbox
from tests.support.waiting import wait_for

Case = Run | SessionUse

AT_ONCE = 16
WARM_UP = 300
TOLERANCE = 4 << 20
"""Bytes that the memory of all processes may differ by: allocators round, and keep some."""
THREADS = 4 + (os.cpu_count() or 1)
"""Of asyncio's executor: how many it has started is chance, but it has no more."""

PATIENCE = aiohttp.ClientTimeout(total=300)
IDLE_SECONDS = 5
SETTLE_SECONDS = 150.0


@dataclass(frozen=True)
class Service:
    """A running service, what it may write to, and the mark of its programs' files."""

    url: str
    process: Process
    groups: tuple[Path, ...]
    folders: tuple[Path, ...]
    token: str
    given_back: Path

    @property
    def temporary(self) -> Path:
        return self.folders[0]

    def footprint(self) -> Footprint:
        return footprint(self.process.pid, self.groups, self.folders, self.token)

    def threads(self) -> int:
        return psutil.Process(self.process.pid).num_threads()

    def memory(self) -> Memory:
        """What it holds once it has given back the memory that nothing uses."""
        self.given_back.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR1)
        wait_for(self.given_back.exists, "unused memory is given back", SETTLE_SECONDS)
        return memory(self.process.pid, self.groups)

    def settle(self) -> None:
        """Wait until it keeps no slot for a next program, and prepares nothing for compilers."""
        try:
            wait_for(lambda: not slots(self.groups), "idle slots are gone", SETTLE_SECONDS)
        except AssertionError:
            pytest.fail(f"{slots(self.groups)} stay; the service says {self.process.tail()}")
        wait_for(lambda: not preparing(self.process.pid), "all is prepared", SETTLE_SECONDS)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    installed_runtime("sandbox")
    folders = (tmp_path / "tmp", tmp_path / "home")
    for folder in folders:
        folder.mkdir()
    given_back = tmp_path / "given-back"
    settings = {
        GIVEN_BACK: str(given_back),
        "TMPDIR": str(folders[0]),
        "TEMPER_HOME": str(folders[1]),
        "TEMPER_RUNTIMES": str(FOLDER),
        "TEMPER_SANDBOX_PREPARED": str(PREPARED),
        "TEMPER_SANDBOX_CONCURRENCY": "4",
        "TEMPER_SANDBOX_IDLE_SECONDS": str(IDLE_SECONDS),
        # Large outputs go back to the system when they are freed, not into the allocator's pool.
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
    module = "tests.integration.sandbox.orphanage"
    with running_service(module, settings, tmp_path / "log") as (process, url):
        groups = group_folders(process.pid)
        if not groups:
            pytest.skip("slots are counted by their control groups, which cannot be made here")
        yield Service(url, process, groups, folders, f"leak{uuid.uuid4().hex}", given_back)


@pytest.mark.parametrize(
    "number", [300, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
)
def test_mixed_runs_leave_nothing_behind(service: Service, number: int) -> None:
    kinds = _kinds(service)
    _drill(service, [*kinds, *kinds, *_mixed(kinds, WARM_UP, seed=1)])
    service.settle()
    before, memory_before, threads = service.footprint(), service.memory(), service.threads()

    _drill(service, _mixed(kinds, number, seed=2))
    service.settle()

    # The kernel gives some things back a moment after the last process.
    with suppress(AssertionError):
        wait_for(lambda: service.footprint() == before, "the footprint is the same")
    assert service.footprint() == before
    assert service.threads() <= threads + THREADS
    memory_after = service.memory()
    assert memory_after.processes < memory_before.processes + TOLERANCE
    assert memory_after.groups < memory_before.groups + TOLERANCE


def test_a_stopped_service_leaves_nothing_behind(service: Service) -> None:
    kinds = _kinds(service)
    _drill(service, kinds)
    processes = tree(service.process.pid)
    mounts = host_mounts()

    assert service.process.end() == 0, service.process.tail()

    wait_for(lambda: not living(processes), "all processes have ended")
    assert [folder for folder in service.groups if folder.exists()] == []
    assert list(service.temporary.rglob("*")) == []
    assert host_mounts() == mounts


def test_a_killed_service_takes_its_stopped_zygotes_with_it(tmp_path: Path) -> None:
    with running_sandbox(tmp_path, TEMPER_SANDBOX_TIER="full") as sandbox:
        own = psutil.Process(sandbox.process.pid).children()
        started = [each for each in own if "zygote.py" in " ".join(each.cmdline())]
        wait_for(lambda: all(map(_waits, started)), "those that wait for their namespaces")
        for each in started:
            each.suspend()
        sandbox.process.kill()

        _, alive = psutil.wait_procs(started, timeout=60)
        assert alive == []


def _waits(zygote: psutil.Process) -> bool:
    """Whether it has closed its channel, which belongs to its fork in namespaces from then on."""
    folder = Path(f"/proc/{zygote.pid}/fd")
    return not any(str(each.readlink()).startswith("socket:") for each in folder.iterdir())


def _kinds(service: Service) -> list[Case]:
    listed = httpx.get(f"{service.url}/v1/languages", timeout=300).raise_for_status().json()
    working = {each["language"] for each in listed["languages"] if each["available"]}
    return [*runs(service.token, working), *SESSIONS]


def _mixed(kinds: list[Case], number: int, seed: int) -> list[Case]:
    """So many cases in random order, every kind by its weight."""
    return random.Random(seed).choices(kinds, [kind.weight for kind in kinds], k=number)


def _drill(service: Service, sequence: Iterable[Case]) -> None:
    """Send the requests concurrently; all responses must be as expected."""
    wrong = asyncio.run(_send_all(service.url, iter(sequence)))
    assert not wrong, wrong[:5]


async def _send_all(url: str, sequence: Iterator[Case]) -> list[str]:
    wrong: list[str] = []

    async def one_after_another(client: aiohttp.ClientSession) -> None:
        for case in sequence:
            problem = await case.execute(client)
            if problem is not None:
                wrong.append(f"{case.name}: {problem}")

    async with aiohttp.ClientSession(url, timeout=PATIENCE) as client:
        await asyncio.gather(*(one_after_another(client) for _ in range(AT_ONCE)))
    return wrong
