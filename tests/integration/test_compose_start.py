"""The unchanged docker-compose.yml comes up on an engine, whatever starts first.

Services are stand-ins that only answer health probes; networks, addresses, users, volumes,
read-only file systems and probes are the real ones.
"""

from collections.abc import Iterator

import pytest

from tests.support.docker_engine import PROJECT, Engine, running_engine
from tests.support.processes import free_port
from tests.support.stand_in_images import make_images
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.docker, pytest.mark.drill]

SERVICES = {
    *("api", "campaigns", "sandbox", "retrieval"),
    *("trainer", "evaluator", "indexer"),
    *("postgres", "redis"),
}
HEALTHY = dict.fromkeys(SERVICES, "healthy")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with running_engine() as engine:
        make_images(engine)
        engine.variables["TEMPER_PORT"] = str(free_port())
        yield engine


def test_the_stack_comes_up_in_any_order_and_after_a_reboot(engine: Engine) -> None:
    # The sandbox shares a network with the campaigns' worker, whose address is fixed.
    engine.compose("create", "--no-build")
    engine.compose("start", "sandbox")
    engine.compose("up", "--no-build", "--wait", "--wait-timeout", "120")
    assert engine.health() == HEALTHY
    addresses = script_addresses(engine)

    engine.stop()
    engine.start()  # restarts what ran
    wait_for(lambda: engine.health() == HEALTHY, "all services are healthy after a reboot")
    assert script_addresses(engine)["campaigns"] == addresses["campaigns"]

    ids = {name: each["Id"] for name, each in engine.containers().items()}
    engine.docker("stop", "--time", "1", *ids.values())
    for name in sorted(SERVICES - {"campaigns"}, reverse=True):
        engine.docker("start", ids[name])
    engine.docker("start", ids["campaigns"])
    assert set(engine.health().values()) <= {"healthy", "starting"}


def script_addresses(engine: Engine) -> dict[str, str]:
    """The addresses of containers on the network of scripts."""
    network = f"{PROJECT}_scripts"
    return {
        name: each["NetworkSettings"]["Networks"][network]["IPAddress"]
        for name, each in engine.containers().items()
        if network in each["NetworkSettings"]["Networks"]
    }
