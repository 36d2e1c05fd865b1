"""Programs that exhaust the disk."""

import errno

from tests.support.sandbox import Sandbox


def test_disk_usage_is_limited(sandbox: Sandbox) -> None:
    code = """
import time
try:
    for n in range(100):
        with open(f'{n}', 'wb') as f:
            for _ in range(8): f.write(bytes(1 << 20))
    time.sleep(60)
except OSError as error: print(error.errno)
"""
    answer = sandbox.run(code, memory_limit_MB=1024, run_timeout=120)
    # In the container tier it is watched, and the program is ended at the bound.
    assert answer["run_result"]["stdout"] == "28\n" or answer["status"] == "Failed"


def test_unlinked_files_count(sandbox: Sandbox) -> None:
    code = """
import os, time
kept = []
try:
    for n in range(40):
        f = open(f'{n}', 'wb'); os.unlink(f.name); kept.append(f)
        for _ in range(16): f.write(bytes(1 << 20))
        f.flush()
    time.sleep(60)
except OSError as error: print(error.errno)
"""
    answer = sandbox.run(code, memory_limit_MB=2048, run_timeout=120)
    assert answer["run_result"]["stdout"] == "28\n" or answer["run_result"]["return_code"] == -9


def test_the_size_of_one_file_is_limited(sandbox: Sandbox) -> None:
    code = """
try:
    with open('big', 'wb') as f:
        f.seek(10 << 30); f.write(b'x')
except OSError as error: print(error.errno)
"""
    assert sandbox.output(code) == "27\n"


def test_the_number_of_files_is_limited(sandbox: Sandbox) -> None:
    code = """
try:
    for n in range(10**6): open(f'{n}', 'x').close()
except OSError as error: print(error.errno)
"""
    answer = sandbox.run(code, run_timeout=30)
    assert answer["run_result"]["stdout"] == "28\n" or answer["status"] == "Failed"


def test_descriptors_are_limited(sandbox: Sandbox) -> None:
    code = """
import os
try:
    while True: os.dup(0)
except OSError as error: print(error.errno)
"""
    assert sandbox.output(code) == "24\n"


def test_trees_of_any_depth_are_removed(sandbox: Sandbox) -> None:
    code = """
import os
for _ in range(3000):
    os.mkdir('d'); os.chdir('d')
print('deep')
"""
    # In the container tier, where files are watched, such a tree may be taken for too many.
    assert sandbox.run(code)["run_result"]["return_code"] in (0, -9)


def test_the_system_is_read_only(sandbox: Sandbox) -> None:
    code = """
import os
written = []
folders = '/ /usr /usr/bin /etc /dev /bin /lib /root /home /var /proc/sys/kernel'.split()
for folder in (*folders, os.path.dirname(os.__file__)):
    try: open(f'{folder}/planted', 'w').close()
    except OSError: continue
    written.append(folder)
print(written)
"""
    assert sandbox.output(code) == "[]\n"


def test_folders_swapped_for_fifos_do_not_delay_the_time_limit(sandbox: Sandbox) -> None:
    code = """
import os
for n in range(50):
    os.mkdir(f'd{n}'); os.mkfifo(f'f{n}')
while True:
    for n in range(50):
        os.rename(f'd{n}', 'x'); os.rename(f'f{n}', f'd{n}'); os.rename('x', f'f{n}')
"""
    result = sandbox.run(code, run_timeout=3)["run_result"]
    assert result["status"] == "TimeLimitExceeded"
    assert result["execution_time"] < 60  # opening a FIFO blocks forever


def test_space_cannot_be_allocated_faster_than_it_is_watched(
    sandbox: Sandbox, is_full: bool
) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
file = os.open('reserved', os.O_CREAT | os.O_RDWR)
print(libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(1 << 20)), ctypes.get_errno())
os.posix_fallocate(file, 0, 1 << 20)
print(os.fstat(file).st_size)
"""
    expected = "0 0" if is_full else f"-1 {errno.EOPNOTSUPP}"
    assert sandbox.output(code) == f"{expected}\n{1 << 20}\n"
