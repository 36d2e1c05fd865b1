"""The service survives programs that fill the memory of its container."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs.reachable import launcher
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import Sandbox, running_sandbox

pytestmark = [
    pytest.mark.runtime,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can limit the service's memory"),
]

CONTAINER_BYTES = 1200 << 20
GROUPS = Path("/sys/fs/cgroup/memory")
CODE = "print(1 + 1)"

PAGE_TABLES = """
import mmap, os, time
try: open('/proc/self/oom_score_adj', 'w').write('0')
except OSError: pass
for _ in range(220):
    if os.fork() == 0:
        empty = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
        for at in range(0, len(empty), 4096 * 64):
            empty[at]
        time.sleep(600)
time.sleep(600)
"""
EMPTY_FILES = """
import os
files = [os.open(f'{n}', os.O_CREAT | os.O_RDWR) for n in range(900)]
for n in range(30_000): os.close(os.open(f'x{n}', os.O_CREAT | os.O_RDWR))
for file in files: os.posix_fallocate(file, 0, 300 << 20)
"""


@pytest.fixture(scope="module", params=["full", "container"])
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """A service without control groups in a container with little memory."""
    if not (GROUPS / "memory.limit_in_bytes").exists():
        pytest.skip("needs cgroup v1, to limit the service from outside")
    group = GROUPS / f"temper-test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(CONTAINER_BYTES))
    enter = [
        *("/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"),
        *launcher("container", installed_runtime("sandbox").python),
        *("/bin/sh", "-c", 'mount -t tmpfs -o size=500m tmp /mnt && exec "$@"', "sh"),
    ]
    folder = tmp_path_factory.mktemp("container")
    settings = {"TEMPER_SANDBOX_TIER": request.param, "TEMPER_SANDBOX_MEMORY_MB": "256"}
    settings["TMPDIR"] = "/mnt"
    try:
        with running_sandbox(folder, launcher=enter, **settings) as sandbox:
            yield sandbox
    finally:
        group.rmdir()


@pytest.mark.parametrize("code", [PAGE_TABLES, EMPTY_FILES], ids=["page tables", "empty files"])
def test_the_service_outlives_programs_that_fill_memory(sandbox: Sandbox, code: str) -> None:
    with (
        sandbox.started(code, run_timeout=30) as first,
        sandbox.started(code, run_timeout=30) as second,
    ):
        answers = [first(), second()]

    assert [answer["status"] for answer in answers] == ["Failed", "Failed"]
    assert sandbox.output(CODE) == "2\n"


FILL_DISK = """
import itertools
block = bytes(1 << 20)
for n in itertools.count():
    with open(f'{n}', 'wb', buffering=0) as file:
        for _ in range(32): file.write(block)
"""
FILL_DISK_OUT_OF_SIGHT = """
import array, itertools, os, socket
block, kept = bytes(1 << 20), []
for n in itertools.count():
    file = os.open(f'{n}', os.O_CREAT | os.O_RDWR)
    os.unlink(f'{n}')
    pair = socket.socketpair()
    kept += pair
    pair[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file]))])
    for _ in range(32): os.write(file, block)
    os.close(file)
"""
WRITE_LITTLE = """
with open('little', 'wb') as file:
    for _ in range(20): file.write(bytes(1 << 20))
print('written')
"""


@pytest.mark.parametrize(
    "code",
    [FILL_DISK, FILL_DISK_OUT_OF_SIGHT, EMPTY_FILES],
    ids=["named", "only in sockets", "slow to count"],
)
def test_a_program_that_fills_its_disk_is_killed_and_its_space_is_free(
    sandbox: Sandbox, code: str
) -> None:
    with sandbox.started(code, run_timeout=30) as hog:
        assert hog()["status"] == "Failed"
    assert sandbox.output(WRITE_LITTLE) == "written\n"
