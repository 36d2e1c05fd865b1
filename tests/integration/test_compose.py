"""docker-compose.yml as Docker Compose itself reads it; no engine is needed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.testing.compose import compose_command

REPOSITORY = Path(__file__).resolve().parents[2]
PROFILES = {"default": [], "gpu": ["--profile", "gpu"]}
WORKERS = {"default": {"trainer", "evaluator"}, "gpu": {"trainer-gpu", "evaluator-gpu"}}

Services = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def command() -> list[str]:
    found = compose_command()
    if found is None:
        pytest.skip("Docker Compose is missing and could not be fetched; `make dev` says why")
    return found


@pytest.fixture(scope="module", params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _config(command: list[str], profile: str, *options: str) -> str:
    # What the developer's shell sets for a stack of their own does not count here.
    ignored = ("COMPOSE_", "TEMPER_", "POSTGRES_")
    checked = subprocess.run(
        [*command, *PROFILES[profile], "config", *options],
        cwd=REPOSITORY,
        env={key: value for key, value in os.environ.items() if not key.startswith(ignored)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == ""
    return checked.stdout


@pytest.fixture(scope="module")
def services(command: list[str], profile: str) -> Services:
    services: Services = json.loads(_config(command, profile, "--format", "json"))["services"]
    return services


def test_it_is_valid(command: list[str], profile: str) -> None:
    assert _config(command, profile, "-q") == ""


def test_it_holds_the_gateway_its_state_and_the_workers_of_the_profile(
    services: Services, profile: str
) -> None:
    assert set(services) == {"api", "redis", "postgres"} | WORKERS[profile]


def test_ports_are_published_on_loopback_only(services: Services) -> None:
    addresses = {
        (name, port.get("host_ip"), port["target"])
        for name, service in services.items()
        for port in service.get("ports", [])
    }
    assert addresses == {("api", "127.0.0.1", 8080)}
    assert all(service.get("network_mode") != "host" for service in services.values())


def test_nothing_runs_as_root_or_with_privileges(services: Services) -> None:
    for name, service in services.items():
        assert service["user"].split(":")[0] not in {"", "0", "root"}, name
        assert not service.get("privileged"), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"], name
        assert "no-new-privileges:true" in service["security_opt"], name


def test_every_service_has_a_health_check(services: Services) -> None:
    for name, service in services.items():
        own = "test" in service.get("healthcheck", {})
        build = service.get("build")
        of_image = build and "\nHEALTHCHECK " in (REPOSITORY / build["dockerfile"]).read_text()
        assert own or of_image, name


def test_what_uses_the_state_waits_until_it_is_healthy(services: Services) -> None:
    for name, service in services.items():
        if "build" in service:
            waits = {key: value["condition"] for key, value in service["depends_on"].items()}
            assert waits == {"postgres": "service_healthy", "redis": "service_healthy"}, name


def test_only_the_workers_of_the_gpu_profile_ask_for_gpus(services: Services) -> None:
    for name, service in services.items():
        devices = service.get("deploy", {}).get("resources", {}).get("reservations", {})
        assert bool(devices.get("devices")) is name.endswith("-gpu"), name
        accelerator = service.get("build", {}).get("args", {}).get("ACCELERATOR", "cpu")
        assert accelerator == ("cuda" if name.endswith("-gpu") else "cpu"), name


def test_the_database_and_the_broker_are_on_a_network_of_their_own(services: Services) -> None:
    for name in ("postgres", "redis"):
        assert set(services[name]["networks"]) == {"state"}
