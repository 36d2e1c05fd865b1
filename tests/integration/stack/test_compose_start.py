"""The unchanged docker-compose.yml comes up on an engine, whatever starts first.

All services but the sandbox and retrieval are stand-ins that only answer health probes; networks,
addresses, users, volumes, read-only file systems and probes are the real ones.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from pathlib import Path
from socket import AF_INET

import psutil
import pytest

from tests.support.docker.engine import (
    PROJECT,
    Engine,
    running_engine,
    skip_if_the_firewall_drops,
)
from tests.support.docker.metadata import metadata_service
from tests.support.docker.stand_in_images import make_images
from tests.support.processes import free_port

pytestmark = [pytest.mark.docker, pytest.mark.drill]

SERVICES = {
    *("api", "campaigns", "sandbox", "retrieval"),
    *("trainer", "evaluator", "indexer"),
    *("postgres", "redis"),
}
ISOLATING_RELEASE = 26
"""The first engine known to give internal networks no default route; earlier ones give them an
address for it that nobody has."""
UP = ("up", "--no-build", "--no-recreate", "--wait", "--wait-timeout", "240")
HEALTHY = dict.fromkeys(SERVICES, "healthy")
RUN_CODE = """
import json, urllib.request as web
program = {"language": "python", "code": "import os; print(os.getuid() not in (0, 10001))"}
content = {"Content-Type": "application/json"}
asked = web.Request("http://sandbox:8081/run_code", json.dumps(program).encode(), content)
print(web.urlopen(asked, timeout=120).read().decode())
"""
"""A request as the gateway makes it."""
RETRIEVE = """
import json, urllib.error, urllib.request as web
query = {"queries": ["who?"], "index": "none"}
content = {"Content-Type": "application/json"}
asked = web.Request("http://retrieval:8082/retrieve", json.dumps(query).encode(), content)
try:
    print(web.urlopen(asked, timeout=120).read().decode())
except urllib.error.HTTPError as refused:
    print(refused.read().decode())
"""


WITH_A_ROUTE_OUT = ("api", "campaigns", "retrieval", "trainer", "evaluator", "indexer")
ASK_METADATA = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as asked:
        print(asked.recv(100).decode())
except OSError:  # no host has the address
    print("unreachable")
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with running_engine() as engine:
        make_images(engine)
        engine.variables.update(TEMPER_PORT=str(free_port()), HEALTH_INTERVAL="2s")
        yield engine


@pytest.fixture
def metadata() -> Iterator[tuple[str, int]]:
    """Where this machine answers at a link-local address, as a cloud does, for all that ask."""
    with metadata_service() as address:
        yield address


def test_the_stack_comes_up_in_any_order_and_after_a_reboot(engine: Engine) -> None:
    # The sandbox shares a network with the campaigns' worker, whose address is fixed.
    engine.compose("create", "--no-build")
    engine.compose("start", "sandbox")
    engine.compose(*UP)
    assert engine.health() == HEALTHY
    addresses = script_addresses(engine)
    gateways = gateways_of(engine, "sandbox")
    if engine.release() >= ISOLATING_RELEASE:
        assert gateways == set()
    assert not gateways & taken_addresses(engine)
    warned = "has a default route" in engine.compose("logs", "sandbox")
    assert warned is bool(gateways)

    engine.stop()
    engine.start()  # starts what ran
    assert set(engine.health().values()) <= {"healthy", "starting"}
    engine.compose(*UP)
    assert engine.health() == HEALTHY
    assert script_addresses(engine)["campaigns"] == addresses["campaigns"]

    ids = {name: each["Id"] for name, each in engine.containers().items()}
    engine.docker("stop", "--time", "1", *ids.values())
    others = sorted(SERVICES - {"campaigns"}, reverse=True)
    engine.docker("start", *(ids[name] for name in (*others, "campaigns")))
    assert set(engine.health().values()) <= {"healthy", "starting"}


def test_the_sandbox_runs_programs_in_the_container_that_it_is_given(engine: Engine) -> None:
    skip_if_the_firewall_drops()
    engine.compose(*UP)

    answer = engine.compose("exec", "-T", "api", "python", "-I", "-S", "-c", RUN_CODE)

    assert json.loads(answer)["run_result"]["stdout"] == "True\n"  # with a user id of its own


def test_retrieval_answers_the_gateway(engine: Engine) -> None:
    skip_if_the_firewall_drops()
    engine.compose(*UP)

    answer = engine.compose("exec", "-T", "api", "python", "-I", "-S", "-c", RETRIEVE)

    assert json.loads(answer)["error"]["code"] == "index_not_found"


def test_metadata_of_the_cloud_is_out_of_reach(engine: Engine, metadata: tuple[str, int]) -> None:
    engine.compose(*UP)
    ask = ("python", "-I", "-S", "-c", ASK_METADATA, *map(str, metadata))

    def answer(service: str) -> str:
        return engine.compose("exec", "-T", service, *ask).strip()

    with ThreadPoolExecutor() as together:
        answers = dict(zip(WITH_A_ROUTE_OUT, together.map(answer, WITH_A_ROUTE_OUT), strict=True))

    assert answers == dict.fromkeys(WITH_A_ROUTE_OUT, "unreachable")
    # It is this network that keeps it so.
    worker = engine.containers()["trainer"]["Id"]
    engine.docker("network", "disconnect", f"{PROJECT}_unreachable", worker)
    try:
        assert answer("trainer") == "credentials"
    finally:
        engine.docker("network", "connect", f"{PROJECT}_unreachable", worker)


def script_addresses(engine: Engine) -> dict[str, str]:
    """The addresses of containers on the network of scripts."""
    network = f"{PROJECT}_scripts"
    return {
        name: each["NetworkSettings"]["Networks"][network]["IPAddress"]
        for name, each in engine.containers().items()
        if network in each["NetworkSettings"]["Networks"]
    }


def gateways_of(engine: Engine, service: str) -> set[IPv4Address]:
    """Where a container sends what is for no network of its own."""
    pid = engine.containers()[service]["State"]["Pid"]
    rows = Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:]
    routes = [row.split() for row in rows]  # interface, destination, gateway, ...
    return {
        IPv4Address(bytes.fromhex(gateway)[::-1])
        for _, destination, gateway, *_ in routes
        if int(destination, 16) == 0
    }


def taken_addresses(engine: Engine) -> set[IPv4Address]:
    """The addresses of this machine and of all containers."""
    local = {
        IPv4Address(each.address)
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family == AF_INET
    }
    return local | {
        IPv4Address(network["IPAddress"])
        for each in engine.containers().values()
        for network in each["NetworkSettings"]["Networks"].values()
    }
