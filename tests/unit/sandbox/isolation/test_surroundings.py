"""The operator learns where the sandbox's own network leads."""

import logging
from pathlib import Path

import pytest

from services.sandbox import engine
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.measures import measures
from services.sandbox.isolation.surroundings import default_gateways
from services.sandbox.isolation.tier import Tier

HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
OWN = "eth0\t004DE70A\t00000000\t0001\t0\t0\t0\tF0FFFFFF\t0\t0\t0\n"
OUT = "eth0\t00000000\t014DE70A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
HALF = "eth0\t00000000\t034DE70A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n"


@pytest.mark.parametrize(
    ("routes", "gateways"),
    [
        (HEADER, []),
        (HEADER + OWN, []),
        (HEADER + OUT + OWN, ["10.231.77.1"]),
        (HEADER + HALF + OWN, []),
    ],
    ids=["none", "own-network", "default", "half-of-all"],
)
def test_only_a_default_route_leads_out(tmp_path: Path, routes: str, gateways: list[str]) -> None:
    table = tmp_path / "route"
    table.write_text(routes)
    assert default_gateways(table) == gateways


def test_a_kernel_without_networks_has_no_route(tmp_path: Path) -> None:
    assert default_gateways(tmp_path / "route") == []


@pytest.mark.parametrize("gateways", [[], ["10.231.77.1"]])
def test_the_report_names_the_gateway_of_the_service(gateways: list[str]) -> None:
    without_groups = Cgroups([], dict.fromkeys(Controller, "not tried"))
    listed = measures(Tier.CONTAINER, 4, without_groups, [], gateways)
    (found,) = (each for each in listed if each.name == "service_network")
    assert found.enforced is not bool(gateways)
    assert all(gateway in found.description for gateway in gateways)


@pytest.mark.parametrize(
    ("contained", "gateways", "warned"),
    [(True, ["10.231.77.1"], True), (True, [], False), (False, ["192.0.2.1"], False)],
    ids=["container", "isolated-container", "machine"],
)
def test_a_container_that_leads_out_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    contained: bool,
    gateways: list[str],
    warned: bool,
) -> None:
    monkeypatch.setattr(engine, "is_container", lambda: contained)
    monkeypatch.setattr(engine, "default_gateways", lambda: gateways)
    with caplog.at_level(logging.WARNING):
        engine._warn_of_routes()
    assert ("via 10.231.77.1" in caplog.text) is warned
