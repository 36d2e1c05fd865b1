"""Runs survive the death of processes below them, and nothing is left at the end."""

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from services.sandbox.execution import Executable, ExitReason, SandboxFailure
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier
from services.sandbox.pool import pool, slot, zygote
from services.sandbox.pool.pool import Pool
from services.sandbox.pool.protocol import BASIC_ENVIRONMENT, readable
from services.sandbox.pool.slot import Slot
from services.sandbox.pool.zygote import Zygote
from tests.integration.sandbox.pool.programs import (
    arguments,
    descendants,
    execution,
    named,
    process_named,
    python,
    run,
    start,
)
from tests.support.programs.sandbox_pool import PoolInThread, running_pool
from tests.support.runtimes import installed_runtime
from tests.support.waiting import wait_for


def zygotes_of_the_pool() -> list[psutil.Process]:
    """Of each the process that forks, and in the full tier also the one that waits for it."""
    found = []
    for process in psutil.Process().children():
        if any(part.endswith("zygote.py") for part in arguments(process)):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                inside = [child for child in process.children() if is_in_another_namespace(child)]
                found += [process, *inside[:1]]
    return found


def is_in_another_namespace(process: psutil.Process) -> bool:
    own = Path("/proc/self/ns/pid").readlink()
    try:
        return Path(f"/proc/{process.pid}/ns/pid").readlink() != own
    except OSError:
        return False  # it has ended in between


async def wait_until_idle(pool: Pool) -> None:
    """Wait until a pool neither starts zygotes nor creates or ends slots on its own."""
    await asyncio.wait(pool._chores[:1])
    while at_work := [task for warm_pool in pool._warm_pools.values() for task in warm_pool._tasks]:
        await asyncio.wait(at_work)


def ready_slots(sandbox: PoolInThread) -> list[Slot]:
    return [slot for pool in sandbox.pool._warm_pools.values() for slot in pool._ready]


def run_both_kinds(sandbox: PoolInThread) -> None:
    """More programs than there are slots, so that new ones must be made."""
    started = [start(sandbox, python("print(1)")) for _ in range(12)]
    numpy = python("import numpy; print(numpy.ones(2))", imports=frozenset({"numpy"}))
    assert [running.result(120).stdout for running in started] == [b"1\n"] * 12
    assert run(sandbox, numpy).stdout == b"[1. 1.]\n"


def test_runs_succeed_after_the_zygotes_were_killed(sandbox: PoolInThread) -> None:
    run_both_kinds(sandbox)
    for process in zygotes_of_the_pool():
        with suppress(psutil.NoSuchProcess):  # the second of a pair ends with the first
            process.kill()
    wait_for(lambda: not any(slot.is_alive() for slot in ready_slots(sandbox)), "slots are dead")

    run_both_kinds(sandbox)


def test_runs_succeed_when_the_zygotes_hang(
    sandbox: PoolInThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.call(wait_until_idle(sandbox.pool))  # or the test waits for one that hangs
    monkeypatch.setattr(zygote, "_FORK_SECONDS", 5.0)
    for process in zygotes_of_the_pool():
        process.suspend()

    run_both_kinds(sandbox)


def test_a_zygote_killed_while_it_warms_up_is_warmed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[str] = []
    warm_up = Zygote.warm_up

    async def kill_once(starting: Zygote) -> None:
        if starting._profile.name == "numpy" and not killed:
            killed.append("numpy")
            with monkeypatch.context() as patch:
                patch.setattr(zygote, "_SCRIPT", Path("/dev/null"))  # ends at once
                await warm_up(starting)
        await warm_up(starting)

    monkeypatch.setattr(Zygote, "warm_up", kill_once)
    monkeypatch.setattr(pool, "_REWARM_SECONDS", 0.01)
    program = "import sys; print('numpy' in sys.modules)"
    with running_pool(programs=1) as sandbox:
        sandbox.call(wait_until_idle(sandbox.pool))
        assert killed
        assert run(sandbox, python(program, imports=frozenset({"numpy"}))).stdout == b"True\n"


def test_a_slot_that_dies_while_starting_is_replaced(
    tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Slot] = []
    start_slot = Slot.start

    async def end_the_first(slot: Slot) -> None:
        if not ended:
            ended.append(slot)
            signal.pidfd_send_signal(slot._process.pidfd, signal.SIGKILL)
            await readable(slot._process.pidfd)
        await start_slot(slot)

    monkeypatch.setattr(Slot, "start", end_the_first)
    with running_pool(tier=tier, programs=1) as sandbox:
        assert run(sandbox, python("print(1)")).stdout == b"1\n"
    assert len(ended) == 1


def slot_of(program: psutil.Process) -> psutil.Process:
    slot = program.parent()
    assert slot is not None
    return slot


@pytest.mark.parametrize("failure", [signal.SIGKILL, signal.SIGSTOP])
def test_a_program_that_has_started_is_never_run_again(
    sandbox: PoolInThread, monkeypatch: pytest.MonkeyPatch, failure: signal.Signals
) -> None:
    """A slot that dies is a failure; one that gives no answer is a time limit."""
    monkeypatch.setattr(slot, "_OVERTIME_SECONDS", 1.0)
    running = start(sandbox, execution(Executable(("sleep", "77004")), seconds=5.0))
    slot_of(wait_for(lambda: process_named("77004"), "the program")).send_signal(failure)

    if failure is signal.SIGKILL:
        with pytest.raises(SandboxFailure):
            running.result(60)
    else:
        assert running.result(60).exit_reason is ExitReason.TIMED_OUT
    wait_for(lambda: named("77004") == [], "nothing of the run is left")
    assert run(sandbox, python("print(1)")).stdout == b"1\n"


CROWD = """
import os, time
for _ in range(100):
    if os.fork() == 0: time.sleep(600)
print("started", flush=True)
os.execlp("sleep", "sleep", "77005")
"""


def test_a_crowd_ends_at_its_limit_though_its_slot_gets_no_turn(tier: Tier) -> None:
    with running_pool(tier=tier, programs=1) as sandbox:
        if Controller.PIDS not in sandbox.pool._cgroups.controllers:
            pytest.skip("no control groups count processes here")
        running = start(sandbox, python(CROWD, seconds=12.0))
        slot_of(wait_for(lambda: process_named("77005"), "the crowd")).suspend()

        outcome = running.result(60)

        assert (outcome.exit_reason, outcome.return_code) == (ExitReason.TIMED_OUT, None)
        assert outcome.stdout == b"started\n"
        wait_for(lambda: named("77005") == [], "nothing of the run is left")
        assert run(sandbox, python("print(1)")).stdout == b"1\n"


def test_a_run_is_retried_if_its_program_died_before_it_started(sandbox: PoolInThread) -> None:
    assert run(sandbox, python("print(1)")).stdout == b"1\n"
    sandbox.call(wait_until_idle(sandbox.pool))
    for waiting in ready_slots(sandbox):
        for program in psutil.Process(waiting._process.pid).children():
            if program.name() != ".reaper":
                program.kill()

    assert run(sandbox, python("print(2)")).stdout == b"2\n"


def own_folders() -> set[Path]:
    """The folders and cgroups that this process has created."""
    found = set(Path(tempfile.gettempdir()).glob(f"temper-sandbox-{os.getpid()}-*"))
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            path = descriptor.readlink()
            if path.is_relative_to("/sys/fs/cgroup") and path.is_dir():
                found.add(path)
    return found


def test_a_closed_pool_leaves_nothing_behind(tier: Tier, sandbox: PoolInThread) -> None:
    sandbox.call(wait_until_idle(sandbox.pool))  # its processes shall not look like the other's
    processes_before, folders_before = {process.pid for process in descendants()}, own_folders()
    with running_pool(tier=tier, programs=2) as closing:
        run(closing, python("print(1)"))
        running = start(closing, execution(Executable(("sleep", "77006"))))
        wait_for(lambda: process_named("77006"), "the program")
        assert own_folders() > folders_before

    with pytest.raises(SandboxFailure):
        running.result(60)
    assert {process.pid for process in descendants()} <= processes_before
    assert own_folders() == folders_before


def test_a_starting_zygote_exits_quietly_when_its_service_dies() -> None:
    own_end, other_end = socket.socketpair()
    with own_end, other_end:
        process = subprocess.Popen(
            [installed_runtime("sandbox").python, zygote._SCRIPT, str(other_end.fileno())],
            pass_fds=[other_end.fileno()],
            stderr=subprocess.PIPE,
            env={**BASIC_ENVIRONMENT, "PYTHONPATH": str(zygote.REPOSITORY)},
        )
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")
