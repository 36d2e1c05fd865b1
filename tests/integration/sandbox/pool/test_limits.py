"""Limits of programs."""

import resource
import signal

import pytest

from services.sandbox.execution import Executable, ExitReason
from services.sandbox.isolation.tier import Tier
from tests.integration.sandbox.pool.programs import MEGABYTE, execution, named, python, run, start
from tests.support.programs.sandbox_pool import CALL_SECONDS, PoolInThread, running_pool
from tests.support.time_limits import LIMITS, with_enough_time


def test_a_timeout_keeps_the_output_and_kills_everything(sandbox: PoolInThread) -> None:
    source = """
import os, subprocess, sys
subprocess.Popen(["sleep", "77001"], start_new_session=True)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.execlp("sleep", "sleep", "77001")
    os._exit(0)
print("begun")
print("error", file=sys.stderr)
sys.stdout.flush()
while True: pass
"""
    outcome = with_enough_time(
        lambda seconds: run(sandbox, python(source, seconds=seconds)),
        lambda outcome: bool(outcome.stdout),
    )

    assert (outcome.exit_reason, outcome.return_code) == (ExitReason.TIMED_OUT, None)
    assert (outcome.stdout, outcome.stderr) == (b"begun\n", b"error\n")
    assert outcome.wall_seconds >= LIMITS[0]
    assert named("77001") == []


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_zero_seconds_is_a_timeout(sandbox: PoolInThread, seconds: float) -> None:
    outcome = run(sandbox, python("print(1)", seconds=seconds))

    assert (outcome.exit_reason, outcome.return_code) == (ExitReason.TIMED_OUT, None)
    assert outcome.stdout == b""


def test_background_processes_die_with_their_program(sandbox: PoolInThread) -> None:
    outcome = run(sandbox, execution(Executable(("sh", "-c", "sleep 77002 & echo done"))))

    assert (outcome.return_code, outcome.stdout) == (0, b"done\n")
    assert named("77002") == []


def test_output_is_truncated_at_its_limit(sandbox: PoolInThread) -> None:
    source = "import sys\nfor n in range(20000): print(n, 'x' * 100)\nsys.stderr.write('y' * 5000)"
    outcome = run(sandbox, python(source, output_bytes=5000))

    expected = "".join(f"{n} {'x' * 100}\n" for n in range(50)).encode()[:5000]
    assert (outcome.stdout, outcome.stdout_cut) == (expected, True)
    assert (outcome.stderr, outcome.stderr_cut) == (b"y" * 5000, False)


def test_endless_output_ends_at_the_timeout(sandbox: PoolInThread) -> None:
    endless = Executable(("yes",))
    outcome = with_enough_time(
        lambda seconds: run(sandbox, execution(endless, seconds=seconds, output_bytes=MEGABYTE)),
        lambda outcome: outcome.stdout_cut,
    )

    assert outcome.exit_reason is ExitReason.TIMED_OUT
    assert outcome.stdout == b"y\n" * (MEGABYTE // 2)
    assert outcome.stdout_cut


HUNGRY = "held = []\nwhile True: held.append(bytearray(b'x' * (1 << 20)))"
HUNGRY_THREAD = f"""
import ctypes, threading
def consume():
    {HUNGRY.replace(chr(10), chr(10) + "    ")}
threading.Thread(target=consume).start()
ctypes.CDLL(None).pthread_exit(None)  # ends the first thread alone
"""
HUNGRY_FORKS = f"import os\nfor _ in range(3): os.fork()\n{HUNGRY}"


@pytest.mark.parametrize("source", [HUNGRY, HUNGRY_FORKS])
def test_memory_is_limited(sandbox: PoolInThread, source: str) -> None:
    outcome = run(sandbox, python(f"print('begun', flush=True)\n{source}", memory_bytes=100 << 20))

    assert (outcome.exit_reason, outcome.return_code) == (ExitReason.OUT_OF_MEMORY, -signal.SIGKILL)
    assert outcome.stdout == b"begun\n"


def test_memory_is_limited_without_control_groups(tier: Tier) -> None:
    with running_pool(tier=tier, groups=False, programs=2) as sandbox:
        for source in (HUNGRY, HUNGRY_FORKS, HUNGRY_THREAD):
            outcome = run(sandbox, python(source, memory_bytes=100 << 20))
            assert outcome.exit_reason is ExitReason.OUT_OF_MEMORY

        held = run(sandbox, python("print(len(b'x' * (60 << 20)))"))

    assert held.stdout == b"62914560\n"
    assert 60 * MEGABYTE < held.peak_memory_bytes < 100 * MEGABYTE  # though hardly looked at


EMPTY_PAGES = """
import mmap, os, time
for _ in range(24):
    if os.fork() == 0:
        empty = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
        for at in range(0, len(empty), 4096 * 64):
            empty[at]
        time.sleep(600)
time.sleep(600)
"""


def test_page_tables_are_limited_without_control_groups(tier: Tier) -> None:
    with running_pool(tier=tier, groups=False, programs=2) as sandbox:
        outcome = run(sandbox, python(EMPTY_PAGES, memory_bytes=200 << 20))

    assert outcome.exit_reason is ExitReason.OUT_OF_MEMORY


FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
THREAD_BOMB = """
import hashlib, threading
data = bytes(1 << 22)
def compute():
    while True: hashlib.sha256(data)  # without the interpreter's lock
for _ in range(1000):
    try: threading.Thread(target=compute).start()
    except RuntimeError: break
"""
SLEEPERS = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(600)
print('all sleep')
"""
KILLED = """
import os, signal
for _ in range(8):
    group, children = 0, []
    for _ in range(200):
        child = os.fork()
        if child == 0:
            while True: signal.pause()
        os.setpgid(child, group)
        group = group or child
        children.append(child)
    os.killpg(group, signal.SIGKILL)
    for child in children: os.waitpid(child, 0)
print('all have died')
"""


@pytest.mark.drill
def test_a_fork_bomb_is_ended_early_without_control_groups(tier: Tier) -> None:
    with running_pool(tier=tier, groups=False, programs=2) as sandbox:
        for source in (FORK_BOMB, THREAD_BOMB):
            bomb = start(sandbox, python(source, seconds=200.0, memory_bytes=8 << 30))
            others = [run(sandbox, python("print(1 + 1)")).stdout for _ in range(5)]
            outcome = bomb.result(CALL_SECONDS)
            ended = (outcome.exit_reason, outcome.return_code)
            assert ended == (ExitReason.FORK_BOMB, -signal.SIGKILL)
            assert others == [b"2\n"] * 5
        sleepers = run(sandbox, python(SLEEPERS, memory_bytes=8 << 30))

    assert (sleepers.return_code, sleepers.stdout) == (0, b"all sleep\n")


@pytest.mark.drill
def test_many_processes_that_are_killed_are_no_fork_bomb(tier: Tier) -> None:
    with running_pool(tier=tier, groups=False, programs=2) as sandbox:
        outcome = run(sandbox, python(KILLED, seconds=200.0, memory_bytes=8 << 30))

    assert (outcome.exit_reason, outcome.stdout) == (ExitReason.EXITED, b"all have died\n")


def test_packages_fit_into_a_small_limit(sandbox: PoolInThread) -> None:
    source = "import numpy\nprint(int(numpy.ones((1000, 1000)).sum()))"
    program = python(source, memory_bytes=256 << 20, imports=frozenset({"numpy"}))

    assert run(sandbox, program).stdout == b"1000000\n"


def test_a_program_may_raise_its_stack_as_far_as_its_container(sandbox: PoolInThread) -> None:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    source = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_STACK, ({hard}, {hard}))\n"
        "print(resource.getrlimit(resource.RLIMIT_STACK)[0])"
    )

    assert run(sandbox, python(source)).stdout.decode() == f"{hard}\n"
