"""docker-compose.yml as parsed by Docker Compose; no Docker engine is needed."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.testing.compose import compose_command
from services.core.tracking.selection import TrackerName

REPOSITORY = Path(__file__).resolve().parents[2]
PROFILES = {"default": [], "gpu": ["--profile", "gpu"]}
WORKERS = {
    "default": {"trainer", "evaluator", "indexer"},
    "gpu": {"trainer-gpu", "evaluator-gpu", "indexer-gpu"},
}

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


def _config(command: list[str], profile: str, *options: str, files: Sequence[str] = ()) -> str:
    named = [word for file in files for word in ("-f", file)]
    # Ignore variables that the developer's shell sets for another stack.
    ignored = ("COMPOSE_", "TEMPER_", "POSTGRES_")
    checked = subprocess.run(
        [*command, *named, *PROFILES[profile], "config", *options],
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


def test_the_compose_file_is_valid(command: list[str], profile: str) -> None:
    assert _config(command, profile, "-q") == ""


def test_the_profile_contains_the_gateway_its_state_tools_and_workers(
    services: Services, profile: str
) -> None:
    tools = {"sandbox", "retrieval"}
    assert set(services) == {"api", "campaigns", "redis", "postgres"} | tools | WORKERS[profile]


def test_the_campaigns_worker_reaches_gateway_and_sandbox_through_the_gateway(
    services: Services,
) -> None:
    campaigns = services["campaigns"]

    variables = campaigns["environment"]
    assert variables["TEMPER_GATEWAY_URL"] == variables["TEMPER_SANDBOX_URL"] == "http://api:8080"
    assert "default" in campaigns["networks"]  # of the gateway, and to the LLM
    homes = [each["source"] for each in campaigns["volumes"] if each["target"] == "/var/lib/temper"]
    assert homes == ["home"]


def test_ports_are_published_on_loopback_only(services: Services) -> None:
    addresses = {
        (name, port.get("host_ip"), port["target"])
        for name, service in services.items()
        for port in service.get("ports", [])
    }
    assert addresses == {("api", "127.0.0.1", 8080)}
    assert all(service.get("network_mode") != "host" for service in services.values())


def test_only_the_sandbox_runs_as_root(services: Services) -> None:
    users = {name: service["user"].split(":")[0] for name, service in services.items()}

    assert {name for name, user in users.items() if user in {"", "0", "root"}} == {"sandbox"}


def test_the_sandbox_has_only_the_capabilities_to_switch_users(services: Services) -> None:
    assert {name for name, service in services.items() if service.get("cap_add")} == {"sandbox"}
    given = set(services["sandbox"]["cap_add"])
    assert given == {"CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"}


def test_the_sandbox_has_limits_and_no_volumes(services: Services) -> None:
    sandbox = services["sandbox"]

    assert int(sandbox["mem_limit"]) == int(sandbox["memswap_limit"]) > 0
    assert sandbox["pids_limit"] > 0
    assert "volumes" not in sandbox


def test_the_sandbox_has_no_secrets_and_reaches_only_the_gateway(
    command: list[str], profile: str, services: Services
) -> None:
    assert set(services["sandbox"]["networks"]) == {"tools"}
    on_its_network = {name for name, each in services.items() if "tools" in each["networks"]}
    assert on_its_network == {"sandbox", "api"}
    networks = json.loads(_config(command, profile, "--format", "json"))["networks"]
    assert networks["tools"]["internal"]
    without_the_host = {"com.docker.network.bridge.inhibit_ipv4": "true"}
    assert networks["tools"]["driver_opts"] == without_the_host
    variables = services["sandbox"]["environment"]
    assert all(
        name.startswith(("TEMPER_SANDBOX_", "TEMPER_LOG_", "TEMPER_ALLOW_KEYLESS"))
        for name in variables
    )
    assert services["api"]["environment"]["TEMPER_SANDBOX_URL"] == "http://sandbox:8081"


def test_the_gateway_reaches_retrieval_whose_indexes_persist(
    services: Services,
) -> None:
    retrieval = services["retrieval"]

    assert services["api"]["environment"]["TEMPER_RETRIEVAL_URL"] == "http://retrieval:8082"
    assert set(retrieval["networks"]) & set(services["api"]["networks"])
    homes = [each["source"] for each in retrieval["volumes"] if each["target"] == "/var/lib/temper"]
    assert homes == ["home"]
    assert not any("DATABASE" in name or "BROKER" in name for name in retrieval["environment"])


@pytest.mark.parametrize("tool", ["sandbox", "retrieval"])
def test_no_service_depends_on_the_tools(services: Services, tool: str) -> None:
    assert all(tool not in service.get("depends_on", {}) for service in services.values())


def test_no_service_is_privileged(services: Services) -> None:
    for name, service in services.items():
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


def test_services_wait_for_a_healthy_database_and_broker(services: Services) -> None:
    for name, service in services.items():
        if "state" in service["networks"] and "build" in service:
            waits = {key: value["condition"] for key, value in service["depends_on"].items()}
            assert waits == {"postgres": "service_healthy", "redis": "service_healthy"}, name


def test_only_gpu_workers_request_gpus(services: Services) -> None:
    for name, service in services.items():
        devices = service.get("deploy", {}).get("resources", {}).get("reservations", {})
        assert bool(devices.get("devices")) is name.endswith("-gpu"), name
        accelerator = service.get("build", {}).get("args", {}).get("ACCELERATOR", "cpu")
        assert accelerator == ("cuda" if name.endswith("-gpu") else "cpu"), name


def test_only_workers_are_given_the_variables_of_trackers(services: Services, profile: str) -> None:
    trackers = {name.upper() for name in TrackerName}
    for name, service in services.items():
        variables = service.get("environment", {})
        of_trackers = {each.split("_")[0] for each in variables} & trackers
        assert of_trackers == (trackers if name in WORKERS[profile] else set()), name
        assert ("TEMPER_TRACKERS" in variables) is (name in WORKERS[profile]), name


def test_the_database_and_the_broker_have_a_separate_network(services: Services) -> None:
    for name in ("postgres", "redis"):
        assert set(services[name]["networks"]) == {"state"}


def test_an_override_file_enables_full_sandbox_isolation(
    command: list[str], profile: str, services: Services
) -> None:
    files = ("docker-compose.yml", "infra/compose/sandbox-full.yml")
    full = json.loads(_config(command, profile, "--format", "json", files=files))["services"]

    sandbox = full.pop("sandbox")
    assert {name: service for name, service in services.items() if name != "sandbox"} == full
    assert sandbox["environment"]["TEMPER_SANDBOX_MINIMUM_TIER"] == "full"
    assert {"no-new-privileges:true", "seccomp=unconfined"} <= set(sandbox["security_opt"])
    assert (sandbox["user"], sandbox["cap_drop"]) == ("10001:10001", ["ALL"])
    assert not sandbox.get("cap_add")
    assert not sandbox.get("privileged")


def test_an_override_file_gives_the_sandbox_control_groups_of_its_own(
    command: list[str], profile: str, services: Services
) -> None:
    files = ("docker-compose.yml", "infra/compose/sandbox-cgroups.yml")
    with_groups = json.loads(_config(command, profile, "--format", "json", files=files))["services"]

    sandbox, default = with_groups.pop("sandbox"), services["sandbox"]
    assert {name: service for name, service in services.items() if name != "sandbox"} == with_groups
    assert sandbox.pop("cgroup") == "private"  # or the host's groups would be writable, too
    assert set(sandbox.pop("security_opt")) == {"no-new-privileges:true", "writable-cgroups=true"}
    assert sandbox == {name: value for name, value in default.items() if name != "security_opt"}
