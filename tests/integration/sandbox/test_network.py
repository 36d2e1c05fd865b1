"""Network access of programs: none, or the allow-list."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from services.contracts.errors import ConfigurationError
from services.sandbox.isolation.cgroups import find_cgroups
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import choose_tier
from services.sandbox.network.proxy import CONNECTIONS
from tests.integration.sandbox.sessions.client import SessionClient
from tests.support.processes import REPOSITORY, free_port
from tests.support.runtimes import FOLDER
from tests.support.sandbox import Sandbox, running_sandbox
from tests.support.tcp import Server, echo, read_head, server
from tests.support.waiting import wait_for

SETTING = "TEMPER_SANDBOX_NETWORK_ALLOW"
HOST = "127.0.0.2"  # of this machine, and none that programs take for their own
VARIABLES = """
import os
print({name: value for name, value in os.environ.items() if "proxy" in name.lower()})
"""
ASK = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.stdin.read()).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
TUNNEL = """
import socket, sys
def tunnel(place):
    connection = socket.create_connection(("127.0.0.1", 3128))
    connection.sendall(f"CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n".encode())
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"):
        head += connection.recv(1)
    assert b" 200 " in head, head
    return connection
place = sys.stdin.read()
"""


@dataclass(frozen=True)
class OutsideServers:
    """A service that allows two servers on this host but not a third."""

    sandbox: Sandbox
    web: Server
    echoing: Server
    unlisted: Server


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutsideServers]:
    cgroups = find_cgroups("temper-test")
    try:
        choose_tier(Tier.FULL, None, cgroups)
    except ConfigurationError as error:
        pytest.skip(error.message)
    finally:
        cgroups.close()
    with server(greet, HOST) as web, server(echo, HOST) as echoing, server(greet, HOST) as unlisted:
        settings = {
            SETTING: f"{web.place}, {echoing.place}",
            "TEMPER_SANDBOX_CONCURRENCY": "2",
            "TEMPER_SANDBOX_MAX_SESSIONS": "1",
        }
        folder = tmp_path_factory.mktemp("sandbox")
        with running_sandbox(folder, **settings) as sandbox:
            yield OutsideServers(sandbox, web, echoing, unlisted)
        assert "Traceback" not in (folder / "sandbox.log").read_text()


def greet(connection: socket.socket) -> None:
    read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def test_there_is_no_proxy_by_default(sandbox: Sandbox) -> None:
    listening = "import socket\nprint(socket.socket().connect_ex(('127.0.0.1', 3128)))"

    assert sandbox.output(VARIABLES) == "{}\n"
    assert sandbox.output(listening) == "111\n"
    assert "temper_sandbox_network" not in sandbox.http.get("/metrics").text
    assert measures(sandbox)["network_outside"].startswith("unreachable")


def test_ordinary_clients_reach_listed_destinations(outside: OutsideServers) -> None:
    url = f"http://{outside.web.place}/"

    assert outside.sandbox.output(ASK, stdin=url) == "hello\n"
    assert "'HTTPS_PROXY': 'http://127.0.0.1:3128'" in outside.sandbox.output(VARIABLES)
    if shutil.which("curl"):
        curl = f"curl -sS {url} && curl -sS --proxytunnel {url}"
        assert outside.sandbox.output(curl, "bash") == "hellohello"


def test_unlisted_destinations_are_refused_with_a_reason(outside: OutsideServers) -> None:
    place = outside.unlisted.place
    sentence = f"{place} is not listed in {SETTING} of this sandbox"
    tunnel = f"""
import http.client, os
connection = http.client.HTTPConnection("127.0.0.1", 3128)
connection.set_tunnel("{place}")
try:
    connection.request("GET", "/")
except OSError as error:
    print(error)
"""

    assert outside.sandbox.output(ASK, stdin=f"http://{place}/") == f"403 {sentence}\n\n"
    assert outside.sandbox.output(tunnel) == f"Tunnel connection failed: 403 {sentence}\n"
    assert outside.unlisted.connections == []


def test_the_proxy_cannot_be_bypassed(outside: OutsideServers) -> None:
    code = f"""
import errno, os, socket
for host in ("{HOST}", "{own_address()}", "192.0.2.1"):
    print(errno.errorcode[socket.socket().connect_ex((host, {outside.web.port}))])
print(sorted(os.listdir("/proc/self/fd")))
"""
    before = len(outside.web.connections)

    *errors, rest = outside.sandbox.output(code).splitlines()

    assert errors == ["ECONNREFUSED", "ENETUNREACH", "ENETUNREACH"]
    assert rest == "['0', '1', '2', '3']"  # the last is the folder that was read
    assert len(outside.web.connections) == before


def test_local_servers_of_a_run_bypass_the_proxy(outside: OutsideServers) -> None:
    code = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for host in ("127.0.0.1", "localhost"):
    print(urllib.request.urlopen(f"http://{host}:{server.server_port}/").status)
"""

    assert outside.sandbox.output(code) == "200\n200\n"


def test_tunnels_carry_large_data_both_ways(outside: OutsideServers) -> None:
    code = f"""{TUNNEL}
import os, threading
connection, data = tunnel(place), os.urandom(16 << 20)
def send():
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
received = bytearray()
while piece := connection.recv(1 << 16):
    received += piece
print(received == data)
"""

    assert outside.sandbox.output(code, stdin=outside.echoing.place, run_timeout=60) == "True\n"


def test_connections_of_a_run_are_limited(outside: OutsideServers) -> None:
    code = f"""{TUNNEL}
import select
open_ones = [tunnel(place) for _ in range({CONNECTIONS})]
for connection in open_ones:
    connection.sendall(b"x")
    connection.recv(1)
late = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(20)]
for connection in late:
    connection.sendall(f"CONNECT {{place}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
for connection in open_ones:
    connection.sendall(b"x")
    connection.recv(1)
print(select.select(late, [], [], 0)[0])
open_ones[0].close()
print(len(select.select(late, [], [], 30)[0]))
"""

    assert outside.sandbox.output(code, stdin=outside.echoing.place, run_timeout=60) == "[]\n1\n"


@pytest.mark.drill
@pytest.mark.parametrize("ending", ["import os; os._exit(0)", "while True: pass"])
def test_all_connections_of_a_run_end_with_it(outside: OutsideServers, ending: str) -> None:
    code = f"{TUNNEL}\nopen_ones = [tunnel(place) for _ in range(10)]\n{ending}"
    outside.sandbox.run(code, stdin=outside.echoing.place, run_timeout=2)
    before = sockets(outside.sandbox)

    for _ in range(5):
        outside.sandbox.run(code, stdin=outside.echoing.place, run_timeout=2)

    wait_for(lambda: all(each.fileno() < 0 for each in outside.echoing.connections), "they end")
    wait_for(lambda: sockets(outside.sandbox) < before + 20, "the service closes its own")


def test_a_session_has_the_proxy_too(outside: OutsideServers) -> None:
    session = SessionClient.create(outside.sandbox.http)
    try:
        session.execute(f"import urllib.request as r\nurl = 'http://{outside.web.place}/'")
        assert session.value("r.urlopen(url).read()") == "b'hello'"
    finally:
        session.delete()


def test_network_access_is_reported_and_counted(outside: OutsideServers) -> None:
    outside.sandbox.output(ASK, stdin=f"http://{outside.web.place}/")

    assert measures(outside.sandbox)["network_outside"] == (
        f"only through a proxy, and only to {outside.web.place}, {outside.echoing.place}"
    )
    metrics = outside.sandbox.http.get("/metrics").text
    assert 'temper_sandbox_network_connections_total{result="allowed"}' in metrics


def test_a_tier_that_cannot_enforce_an_allow_list_is_refused(tmp_path: Path) -> None:
    settings = {
        "TEMPER_HOME": str(tmp_path),
        "TEMPER_RUNTIMES": str(FOLDER),
        "TEMPER_SANDBOX_TIER": "container",
        SETTING: "127.0.0.1:80",
    }
    process = subprocess.run(
        [sys.executable, "-m", "services.sandbox", "--port", str(free_port())],
        cwd=REPOSITORY,
        env={**settings, "TEMPER_LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert process.returncode == 2
    assert f"container: {SETTING} is set, and only a private network namespace" in process.stderr


def measures(sandbox: Sandbox) -> dict[str, str]:
    """The isolation measures."""
    report = sandbox.http.get("/v1/isolation").json()
    return {each["name"]: each["description"] for each in report["measures"] if each["enforced"]}


def sockets(sandbox: Sandbox) -> int:
    """How many the service has."""
    found = 0
    for link in Path(f"/proc/{sandbox.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed while we look
            found += str(link.readlink()).startswith("socket:")
    return found


def own_address() -> str:
    """A non-loopback address of this host, or an unused one."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return address.address
    return "192.0.2.2"
