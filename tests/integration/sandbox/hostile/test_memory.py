"""Programs that exhaust memory, in every known way."""

import pytest

from tests.support.sandbox import Sandbox

LIMIT_MB = 128
WAYS = {
    "heap": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "one piece": "x = bytearray(1 << 30)",
    "private mapping": """
import mmap
m = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(0, len(m), 4096): m[i] = 1
""",
    "shared mapping": """
import mmap
m = mmap.mmap(-1, 1 << 30)
for i in range(0, len(m), 4096): m[i] = 1
""",
    "memfd": """
import os, sys
try: fd = os.memfd_create('x')
except OSError: sys.exit(3)
try:
    for _ in range(1024): os.write(fd, bytes(1 << 20))
except OSError: sys.exit(3)
""",
    "files": """
import time
for n in range(64):
    with open(f'/dev/shm/{n}', 'wb') as f:
        for _ in range(16): f.write(bytes(1 << 20))
time.sleep(60)
""",
    "mappings that nobody touches any more": """
import mmap
kept = []
for _ in range(24):
    m = mmap.mmap(-1, 32 << 20)
    for i in range(0, len(m), 4096): m[i] = 1
    m.madvise(mmap.MADV_DONTNEED)
    kept.append(m)
import time; time.sleep(60)
""",
    "files without a name": """
import os, time
kept = []
for n in range(40):
    f = open(f'/dev/shm/{os.getpid()}-{n}', 'wb'); os.unlink(f.name); kept.append(f)
    for _ in range(16): f.write(bytes(1 << 20))
    f.flush()
time.sleep(60)
""",
    "children": """
import os, time
for _ in range(30):
    if os.fork() == 0:
        x = bytearray(32 << 20)
        time.sleep(600)
        os._exit(0)
time.sleep(600)
""",
    "pipes": """
import os, fcntl, time
kept = []
try:
    while True:
        r, w = os.pipe(); kept += (r, w)
        fcntl.fcntl(w, 1031, 1 << 20)
        os.set_blocking(w, False); os.write(w, bytes(1 << 20))
except OSError: raise SystemExit(3)
""",
    "socket buffers": """
import socket, time
kept = []
try:
    while True:
        pair = socket.socketpair(); kept += pair
        for end in pair:
            end.setblocking(False)
            try:
                while True: end.send(bytes(1 << 16))
            except BlockingIOError: pass
except OSError: time.sleep(600)
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_memory_is_limited_to_the_bound(sandbox: Sandbox, way: str, is_full: bool) -> None:
    # The more the machine has to do, the longer it takes until memory that is sampled is seen; all
    # but the parent of the children, who waits for its time to end, are ended by then.
    seconds = 20 if way == "children" else 120
    answer = sandbox.run(WAYS[way], memory_limit_MB=LIMIT_MB, run_timeout=seconds)
    result = answer["run_result"]
    assert answer["status"] == "Failed", answer
    # Where memory is sampled, some of it is there before it is seen.
    assert not is_full or result["peak_memory_mb"] < 2 * LIMIT_MB
    assert result["status"] == "Finished" or way == "children", result


def test_out_of_memory_is_reported(sandbox: Sandbox) -> None:
    result = sandbox.run(WAYS["heap"], memory_limit_MB=LIMIT_MB)["run_result"]
    assert result["return_code"] == -9
    assert result["out_of_memory"] is True


@pytest.mark.parametrize("limit", [256, 1024])
def test_numpy_starts_within_a_small_limit(sandbox: Sandbox, limit: int) -> None:
    code = "import numpy as np\nprint((np.eye(500) @ np.eye(500)).trace())"
    assert sandbox.output(code, memory_limit_MB=limit) == "500.0\n"


def test_address_space_is_not_memory(sandbox: Sandbox) -> None:
    code = """
import mmap
NO_RESERVE = 0x4000
m = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
print(len(m))
"""
    assert sandbox.output(code, memory_limit_MB=LIMIT_MB) == f"{8 << 30}\n"


def test_a_program_cannot_make_others_die_first(sandbox: Sandbox) -> None:
    code = """
import subprocess
def score():
    return open('/proc/self/oom_score_adj').read().strip()
try:
    open('/proc/self/oom_score_adj', 'w').write('0')
except OSError as error:
    print(type(error).__name__)
print(score())
"""
    assert sandbox.output(code) == "PermissionError\n1000\n"
