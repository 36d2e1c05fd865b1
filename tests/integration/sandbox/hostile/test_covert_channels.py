"""Concurrent programs that try to signal to each other."""

import json

from tests.integration.sandbox.test_queue import ask, running
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

SENDER = """
import contextlib, fcntl, os, socket, tempfile, time
from multiprocessing import shared_memory
for folder in ('/tmp', '/var/tmp', '/dev/shm', tempfile.gettempdir(), os.getcwd()):
    with contextlib.suppress(OSError): open(f'{folder}/channel', 'w').close()
with contextlib.suppress(OSError):
    memory = shared_memory.SharedMemory('channel-memory', create=True, size=4096)
servers = []
for family, address in (
    (socket.AF_UNIX, '\\0channel'), (socket.AF_INET, ('127.0.0.1', 47113))
):
    with contextlib.suppress(OSError):
        server = socket.socket(family)
        server.bind(address)
        server.listen()
        servers.append(server)
shared = open(os.__file__)
fcntl.flock(shared, fcntl.LOCK_EX)
while True:
    open(os.__file__).close()
    time.sleep(0.01)
"""

RECEIVER = """
import ctypes, fcntl, json, os, select, socket, tempfile, time
from multiprocessing import shared_memory
reached = set()
shared = open(os.__file__)
end = time.monotonic() + 60
while 'locks' not in reached and time.monotonic() < end:
    try:
        fcntl.flock(shared, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(shared, fcntl.LOCK_UN)
        time.sleep(0.01)
    except OSError:
        reached.add('locks')  # held last: the sender has made everything else
libc = ctypes.CDLL(None)
watch = libc.inotify_init()
if watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(os.__file__), 0x20) >= 0:
    if select.select([watch], [], [], 60)[0]: reached.add('watches')
for folder in ('/tmp', '/var/tmp', '/dev/shm', tempfile.gettempdir(), os.getcwd()):
    if os.path.exists(f'{folder}/channel'): reached.add(f'files in {folder}')
try: shared_memory.SharedMemory('channel-memory'); reached.add('shared memory')
except OSError: pass
for family, address in (
    (socket.AF_UNIX, '\\0channel'), (socket.AF_INET, ('127.0.0.1', 47113))
):
    try: socket.socket(family).connect(address)
    except OSError: continue
    reached.add(f'sockets of {family.name}')
print(json.dumps(sorted(reached)))
"""


def test_only_documented_channels_lead_from_one_run_to_another(sandbox: Sandbox) -> None:
    report = sandbox.http.get("/v1/isolation").json()
    (channels,) = [each for each in report["measures"] if each["name"] == "covert_channels"]
    assert not channels["enforced"]

    with ask(sandbox, "/run_code", SENDER):
        reached = json.loads(sandbox.output(RECEIVER, run_timeout=200))

    assert [name for name in reached if name not in channels["description"]] == []
    wait_for(lambda: running(sandbox) == 0, "the sender is gone")
