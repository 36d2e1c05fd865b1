"""Programs that try to reach other hosts and processes."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

FAMILIES = range(64)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server on the host's loopback interface, which must stay unreachable."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


def reached(server: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        server.accept()[0].close()
    except TimeoutError:
        return False
    return True


def test_host_loopback_is_unreachable(sandbox: Sandbox, listener: socket.socket) -> None:
    code = f"""
import socket
try:
    socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 2)
    print('reached')
except OSError as error: print(type(error).__name__)
"""
    assert sandbox.output(code) in ("ConnectionRefusedError\n", "OSError\n", "PermissionError\n")
    assert not reached(listener)


def test_datagrams_are_not_delivered(sandbox: Sandbox) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        code = f"""
import socket
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b'x', ('127.0.0.1', {server.getsockname()[1]}))
except OSError: pass
"""
        assert sandbox.run(code)["status"] == "Success"
        with pytest.raises(TimeoutError):
            server.recv(1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network with another host")
def test_other_hosts_are_unreachable(sandbox: Sandbox, tmp_path: object) -> None:
    name = f"temper{os.getpid() % 100000}"
    with another_host(name) as address:
        code = f"""
import socket
try:
    with socket.create_connection(('{address}', 80), 2): print('reached')
except OSError: pass
"""
        wait_for(lambda: answers(address), "from here it is there")
        assert sandbox.output(code) == ""


def answers(address: str) -> bool:
    """Whether the server is up."""
    with contextlib.suppress(OSError), socket.create_connection((address, 80), 5):
        return True
    return False


@contextlib.contextmanager
def another_host(name: str) -> Iterator[str]:
    """A network namespace with an address and a server on port 80."""
    if subprocess.run(["which", "ip"], capture_output=True, check=False).returncode:
        pytest.skip("the command ip is not installed (iproute2)")
    number = os.getpid() % 250 + 1
    here, there = f"10.213.{number}.1", f"10.213.{number}.2"
    commands = [
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b netns {name}",
        f"ip addr add {here}/24 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} addr add {there}/24 dev {name}b",
        f"ip -n {name} link set {name}b up",
    ]
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, check=False)
            if done.returncode:
                pytest.skip(f"{command}: {done.stderr.decode().strip()}")
        with served_in(name, there):
            yield there
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextlib.contextmanager
def served_in(namespace: str, address: str) -> Iterator[None]:
    """A listening socket in that namespace."""
    made: list[socket.socket] = []

    def listen() -> None:
        descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        import ctypes

        assert ctypes.CDLL(None).setns(descriptor, 0x40000000) == 0  # this thread's alone
        os.close(descriptor)
        made.append(socket.create_server((address, 80)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    with made[0]:
        yield


def test_no_socket_family_leads_out(sandbox: Sandbox, is_full: bool) -> None:
    code = f"""
import socket
made = []
for family in range({len(FAMILIES)}):
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind).close()
        except OSError: continue
        made.append(family)
        break
print(made)
"""
    unix, inet, inet6, netlink = 1, 2, 10, 16
    allowed = {unix, inet, inet6, netlink} if is_full else set()
    assert set(eval_list(sandbox.output(code))) <= allowed


def eval_list(text: str) -> list[int]:
    """The numbers of a printed list."""
    return [int(number) for number in text.strip().strip("[]").split(",") if number.strip()]


def test_host_abstract_sockets_are_unreachable(sandbox: Sandbox) -> None:
    name = f"temper-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        server.settimeout(0.2)
        code = f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect('\\0{name}')
    print('reached')
except OSError as error: print(type(error).__name__)
"""
        assert "reached" not in sandbox.output(code)
        assert not reached(server)


def test_host_unix_sockets_are_unreachable(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "open-to-all"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        server.settimeout(0.2)
        code = f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect({str(path)!r})
    print('reached')
except OSError as error: print(type(error).__name__)
"""
        assert "reached" not in sandbox.output(code)
        assert not reached(server)


def test_a_program_can_connect_to_its_own_server(sandbox: Sandbox, is_full: bool) -> None:
    if not is_full:
        pytest.skip("programs have no network of their own in the container tier")
    code = """
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(('localhost', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f'http://localhost:{server.server_port}/').status)
server.shutdown()
"""
    assert sandbox.output(code) == "200\n"


USED_NETWORKS = {
    "datagrams": """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for _ in range(100): s.sendto(b'x', ('127.0.0.1', 9))
""",
    "a shell's socket": """
import subprocess
subprocess.run(['bash', '-c', 'echo x > /dev/udp/127.0.0.1/9'])
""",
    "sockets in flight": """
import array, socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
b.bind('\\0left-behind')
both = array.array('i', [a.fileno(), b.fileno()])
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, both)])
""",
}

TRACES = """
udp = [line.split() for line in open('/proc/net/snmp') if line.startswith('Udp:')]
lo = next(line.split() for line in open('/proc/net/dev') if 'lo:' in line)
print(dict(zip(*udp))['OutDatagrams'], lo[2], 'left-behind' in open('/proc/net/unix').read())
"""


@pytest.mark.parametrize("way", USED_NETWORKS)
def test_a_used_network_is_gone_with_its_run(sandbox: Sandbox, way: str, is_full: bool) -> None:
    if not is_full:
        pytest.skip("programs have no network of their own in the container tier")
    for _ in range(5):  # whichever slot the next run gets
        assert sandbox.run(USED_NETWORKS[way])["status"] == "Success"
        assert sandbox.output(TRACES) == "0 0 False\n"


def test_runs_that_use_no_network_share_that_of_their_slot(sandbox: Sandbox, is_full: bool) -> None:
    if not is_full:
        pytest.skip("programs have no network of their own in the container tier")
    code = "import os, socket\nsocket.socketpair()\nprint(os.readlink('/proc/self/ns/net'))"
    names = [sandbox.output(code) for _ in range(20)]

    assert len(set(names)) < len(names)


def test_a_flood_of_sockets_ends_at_its_time_limit(sandbox: Sandbox, is_full: bool) -> None:
    if not is_full:
        pytest.skip("this tier has no sockets but pairs")
    code = """
import socket, threading
def flood():
    while True:
        try: socket.socket().close()
        except OSError: pass
for _ in range(16): threading.Thread(target=flood, daemon=True).start()
flood()
"""
    result = sandbox.run(code, run_timeout=2)["run_result"]
    assert result["status"] == "TimeLimitExceeded"
    assert sandbox.output("print('next')") == "next\n"


def test_socket_pairs_work(sandbox: Sandbox) -> None:
    code = """
import asyncio, socket
a, b = socket.socketpair()
a.send(b'x')
print(b.recv(1), asyncio.run(asyncio.sleep(0, 'slept')))
"""
    assert sandbox.output(code) == "b'x' slept\n"


def test_socket_buffers_are_limited(sandbox: Sandbox, is_full: bool) -> None:
    if not is_full:
        pytest.skip("this tier has no sockets but pairs")
    code = """
import socket
server = socket.create_server(('127.0.0.1', 0), backlog=512)
kept, sent, piece = [], 0, bytes(1 << 20)
try:
    for _ in range(400):
        client = socket.create_connection(server.getsockname(), timeout=1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        client.setblocking(False)
        kept += (client, server.accept()[0])
        try:
            while True: sent += client.send(piece)
        except BlockingIOError: pass
except OSError: pass
print(sent >> 20)
"""
    answer = sandbox.run(code, memory_limit_MB=128)
    assert answer["status"] == "Failed" or int(answer["run_result"]["stdout"]) < 256, answer
