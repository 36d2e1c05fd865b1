"""Nothing of a run is visible to the next one."""

import uuid

from tests.support.sandbox import Sandbox

RUNS = 8  # so many that every place is used again


def test_files_are_gone_after_a_run(sandbox: Sandbox) -> None:
    code = """
import os, tempfile
folders = ('.', os.environ['TMPDIR'], '/dev/shm')
print([name for folder in folders for name in os.listdir(folder) if 'left' in name])
for folder in folders:
    open(f'{folder}/left-behind', 'w').close()
"""
    assert {sandbox.output(code) for _ in range(RUNS)} == {"[]\n"}


def test_shared_memory_folders_are_gone_after_a_run(sandbox: Sandbox) -> None:
    code = """
import os
print([name for name in os.listdir('/dev/shm') if 'left' in name])
os.makedirs('/dev/shm/left-folder/in/it')
open('/dev/shm/left-folder/in/it/file', 'w').close()
"""
    assert {sandbox.output(code) for _ in range(RUNS)} == {"[]\n"}


def test_shared_memory_and_semaphores_are_gone(sandbox: Sandbox) -> None:
    code = """
import ctypes
from multiprocessing import shared_memory
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(4711, 4096, 0) >= 0, libc.semget(4711, 1, 0) >= 0, libc.msgget(4711, 0) >= 0)
libc.shmget(4711, 4096, 0o1666), libc.semget(4711, 1, 0o1666), libc.msgget(4711, 0o1666)
memory = shared_memory.SharedMemory('left', create=True, size=4096)
libc.sem_open(b'/left', 0o100, 0o666, 1)
"""
    assert {sandbox.output(code) for _ in range(RUNS)} == {"False False False\n"}


def test_abstract_sockets_are_gone_after_a_run(sandbox: Sandbox) -> None:
    code = """
import os, socket, sys
try: s = socket.socket(socket.AF_UNIX)
except OSError: print('alone'); sys.exit()
try: s.connect('\\0left'); print('met')
except OSError: print('alone')
if os.fork() == 0:
    os.setsid()
    t = socket.socket(socket.AF_UNIX); t.bind('\\0left'); t.listen()
    while True: t.accept()
"""
    assert {sandbox.output(code) for _ in range(RUNS)} == {"alone\n"}


def test_random_numbers_are_new(sandbox: Sandbox) -> None:
    code = """
import random, uuid, secrets, tempfile
import numpy as np
from sympy.core.random import rng
print(random.random(), np.random.rand(), np.random.default_rng().random(), rng.random(),
      uuid.uuid4(), secrets.token_hex(), tempfile.mktemp(), sep='\\n')
"""
    drawn = [line for _ in range(RUNS) for line in sandbox.output(code).splitlines()]
    assert len(drawn) == len(set(drawn)) == 7 * RUNS


def test_modules_and_environment_are_fresh_in_every_run(sandbox: Sandbox) -> None:
    code = """
import os, sys, math, builtins, json
print(hasattr(builtins, 'left'), math.pi > 3.2, 'LEFT' in os.environ, json.dumps is print,
      sys.getrecursionlimit())
builtins.left = 1; math.pi = 4; os.environ['LEFT'] = '1'; json.dumps = print
sys.setrecursionlimit(50000)
os.umask(0o777); os.chdir('/')
"""
    assert {sandbox.output(code) for _ in range(RUNS)} == {"False False False False 1000\n"}


def test_memory_contains_nothing_of_other_runs(sandbox: Sandbox) -> None:
    """A program is a fork: anything left in its parent's memory would be in its own."""
    secret = uuid.uuid4().hex
    name, code = f"{secret}.txt", f"x = '{secret}'\nprint(x)"
    for _ in range(RUNS):
        files = {name: "c2VjcmV0"}
        sandbox.run(code, stdin=secret * 50, files=files, fetch_files=[name])
    half = len(secret) // 2
    code = f"""
wanted = ({secret[:half]!r}, {secret[half:]!r})
import re
found = 0
with open('/proc/self/mem', 'rb', buffering=0) as memory:
    for line in open('/proc/self/maps'):
        start, end, rights = re.match('([0-9a-f]+)-([0-9a-f]+) (....)', line).groups()
        if rights[0] != 'r' or 'vvar' in line or 'vsyscall' in line: continue
        try:
            memory.seek(int(start, 16))
            block = memory.read(int(end, 16) - int(start, 16))
        except (OSError, OverflowError, ValueError): continue
        found += block.count(b''.join(part.encode() for part in wanted))
        del block
print(found)
"""
    for _ in range(RUNS):
        assert int(sandbox.output(code)) <= 1  # what it looks for, once joined
