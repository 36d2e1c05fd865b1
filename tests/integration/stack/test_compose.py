"""docker-compose.yml as parsed by Docker Compose; no Docker engine is needed."""

import json
import os
import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, TypeVar

import pytest

from services.campaigns.scripts.data import LISTED_AS
from services.campaigns.settings import CampaignSettings
from services.core.settings import ProcessSettings
from services.core.web.auth import hash_key, known_hash
from services.jobs.tracking.selection import TrackerName
from services.jobs.worker.settings import WorkerSettings
from services.sandbox.settings import SandboxSettings
from temper.stack.supervisor import SHUTDOWN_MARGIN
from tests.support.docker.config import VARIANTS, WHOLE, compose_config

REPOSITORY = Path(__file__).resolve().parents[3]
WORKERS = {"trainer", "evaluator", "indexer"}

Of = TypeVar("Of", bound=ProcessSettings)

Services = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def services(command: list[str], variant: str) -> Services:
    services: Services = json.loads(compose_config(command, variant, "--format", "json"))[
        "services"
    ]
    return services


def test_the_compose_file_is_valid(command: list[str], variant: str) -> None:
    assert compose_config(command, variant, "-q") == ""


def test_the_profile_contains_the_gateway_its_state_tools_and_workers(
    services: Services, variant: str
) -> None:
    tools = {"sandbox", "retrieval"}
    assert set(services) == {"api", "campaigns", "redis", "postgres"} | tools | WORKERS


def test_workers_have_time_to_save_and_then_to_end(command: list[str], services: Services) -> None:
    seconds = 2 * WorkerSettings.model_fields["grace_seconds"].default + SHUTDOWN_MARGIN
    both = ("--format", "json")
    text = compose_config(command, "default", *both, variables={"WORKER_STOP": "600s"})
    longer = json.loads(text)["services"]

    for name in WORKERS:
        period = re.fullmatch(r"(\d+)s", services[name]["stop_grace_period"])
        assert period is not None
        assert int(period[1]) >= seconds
        assert longer[name]["stop_grace_period"] == "10m0s"


def test_the_campaigns_worker_reaches_the_gateway(
    services: Services,
) -> None:
    campaigns = services["campaigns"]

    variables = campaigns["environment"]
    assert variables["TEMPER_GATEWAY_URL"] == "http://api:8080"
    assert "default" in campaigns["networks"]  # of the gateway, and to the LLM
    homes = [each["source"] for each in campaigns["volumes"] if each["target"] == "/var/lib/temper"]
    assert homes == ["home"]


@pytest.mark.parametrize(
    "variables",
    [{}, {"SCRIPT_NETWORK": "10.9.9"}],
    ids=["defaults", "own-subnet"],
)
def test_worker_and_sandbox_agree_on_scripts_and_their_llms(
    command: list[str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {
        "TEMPER_CAMPAIGN_SCRIPT_KEY": "key",
        "TEMPER_SANDBOX_SCRIPT_KEY_HASHES": hash_key("key"),
    }
    given = {**keys, **variables}
    stack = json.loads(compose_config(command, "default", "--format", "json", variables=given))
    campaigns, sandbox = stack["services"]["campaigns"], stack["services"]["sandbox"]
    worker = _settings(CampaignSettings, campaigns, monkeypatch)
    service = _settings(SandboxSettings, sandbox, monkeypatch)

    assert worker.campaign_script_key is not None
    key = worker.campaign_script_key.get_secret_value()
    assert known_hash(key, service.sandbox_script_key_hashes) is not None
    assert worker.sandbox_url == "http://sandbox:8081"  # the gateway forwards no scripts
    assert {"scripts"} == set(campaigns["networks"]) & set(sandbox["networks"])
    address = campaigns["networks"]["scripts"]["ipv4_address"]
    assert worker.campaign_proxy_host == address  # the network of the sandbox, and no other
    assert worker.proxy_url == f"http://{service.sandbox_script_network}"
    assert service.sandbox_script_network == f"{address}:{worker.campaign_proxy_port}"
    (pool,) = stack["networks"]["scripts"]["ipam"]["config"]
    assert IPv4Address(address) in IPv4Network(pool["subnet"])
    # Docker gives no other container the address, and none to the host in its place.
    assert IPv4Address(address) not in IPv4Network(pool["ip_range"])
    assert IPv4Network(pool["ip_range"]).subnet_of(IPv4Network(pool["subnet"]))
    assert service.sandbox_script_folders == {LISTED_AS: worker.campaign_script_data}
    shared = {
        name: (each["source"], each["target"], each.get("read_only", False))
        for name, mounts in (("campaigns", campaigns), ("sandbox", sandbox))
        for each in mounts["volumes"]
        if each["target"] == str(worker.campaign_script_data)
    }
    assert shared == {
        "campaigns": ("scripts", "/srv/campaigns", False),
        "sandbox": ("scripts", "/srv/campaigns", True),
    }


def test_without_their_keys_there_are_neither_scripts_nor_a_proxy(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = _settings(CampaignSettings, services["campaigns"], monkeypatch)
    service = _settings(SandboxSettings, services["sandbox"], monkeypatch)

    assert worker.campaign_script_key is None
    assert worker.proxy_url is None
    assert service.sandbox_script_key_hashes == []


def _settings(kind: type[Of], service: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Of:
    """The settings of a service's process, which Docker gives no variables without a value."""
    with monkeypatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TEMPER_")]:
            patch.delenv(name)
        for name, value in service["environment"].items():
            if value is not None:
                patch.setenv(name, value)
        return kind()


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


def test_the_sandbox_has_limits_and_reads_only_data_of_scripts(services: Services) -> None:
    sandbox = services["sandbox"]

    assert int(sandbox["mem_limit"]) == int(sandbox["memswap_limit"]) > 0
    assert sandbox["pids_limit"] > 0
    (volume,) = sandbox["volumes"]
    assert (volume["source"], volume["read_only"]) == ("scripts", True)


def test_the_sandbox_has_no_secrets_and_reaches_only_gateway_and_campaigns(
    command: list[str], variant: str, services: Services
) -> None:
    others = {"tools": "api", "scripts": "campaigns"}
    assert set(services["sandbox"]["networks"]) == set(others)
    networks = json.loads(compose_config(command, variant, "--format", "json"))["networks"]
    without_the_host = {"com.docker.network.bridge.inhibit_ipv4": "true"}
    for network, other in others.items():
        on_it = {name for name, each in services.items() if network in each["networks"]}
        assert on_it == {"sandbox", other}
        assert networks[network]["internal"]
        assert networks[network]["driver_opts"] == without_the_host
    variables = services["sandbox"]["environment"]
    assert all(
        name.startswith(("TEMPER_SANDBOX_", "TEMPER_LOG_", "TEMPER_ALLOW_KEYLESS"))
        for name in variables
    )
    assert services["api"]["environment"]["TEMPER_SANDBOX_URL"] == "http://sandbox:8081"


@pytest.mark.parametrize(
    ("variables", "addresses"),
    [({}, "169.254.0.0/16"), ({"UNREACHABLE_NETWORK": "198.51.100.0/24"}, "198.51.100.0/24")],
    ids=["defaults", "allowed"],
)
def test_metadata_addresses_lead_out_of_no_container_unless_that_is_allowed(
    command: list[str], variant: str, variables: dict[str, str], addresses: str
) -> None:
    both = ("--format", "json")
    stack = json.loads(compose_config(command, variant, *both, profile="cli", variables=variables))
    networks = stack["networks"]

    inward = {name for name, network in networks.items() if network.get("internal")}
    for name, service in stack["services"].items():
        leads_out = bool(set(service["networks"]) - inward)
        assert ("unreachable" in service["networks"]) is leads_out, name
    unreachable = networks["unreachable"]
    assert unreachable["driver_opts"] == {"com.docker.network.bridge.inhibit_ipv4": "true"}
    assert unreachable["internal"]
    assert unreachable["ipam"]["config"] == [{"subnet": addresses}]
    # Not even where the engine gives networks IPv6 addresses by default.
    assert networks["default"]["enable_ipv6"] is False


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
        assert "test" in service.get("healthcheck", {}), name


def test_workers_touch_the_file_that_their_probes_read(services: Services) -> None:
    for name, service in services.items():
        probes_worker = service["healthcheck"]["test"][-1] == "worker"
        touches = service.get("environment", {}).get("TEMPER_HEARTBEAT_FILE")
        assert (touches == "/tmp/heartbeat") is probes_worker, name
        assert not touches or any(each.startswith("/tmp:") for each in service["tmpfs"]), name


def test_services_wait_for_a_healthy_database_and_broker(services: Services) -> None:
    for name, service in services.items():
        if "state" in service["networks"] and "build" in service:
            waits = {key: value["condition"] for key, value in service["depends_on"].items()}
            assert waits == {"postgres": "service_healthy", "redis": "service_healthy"}, name


def test_only_gpu_workers_request_gpus(services: Services, variant: str) -> None:
    with_gpus = WORKERS if variant == "gpu" else set()
    for name, service in services.items():
        devices = service.get("deploy", {}).get("resources", {}).get("reservations", {})
        assert bool(devices.get("devices")) is (name in with_gpus), name
        accelerator = service.get("build", {}).get("args", {}).get("ACCELERATOR", "cpu")
        assert accelerator == ("cuda" if name in with_gpus else "cpu"), name
        assert service["image"].endswith(":cuda") is (name in with_gpus), name


@pytest.mark.parametrize("limit", [("MEMORY", "mem_limit", "5368709120"), ("CPUS", "cpus", 1.5)])
def test_every_container_can_have_limits(
    command: list[str], variant: str, limit: tuple[str, str, object]
) -> None:
    name, field, wanted = limit
    given = {"MEMORY": "5g", "CPUS": "1.5"}[name]
    both = ("--format", "json")
    services = json.loads(compose_config(command, variant, *both, profile="cli"))["services"]
    variables = {f"{service.upper()}_{name}": given for service in services}
    text = compose_config(command, variant, *both, profile="cli", variables=variables)
    limited = json.loads(text)["services"]
    assert {each: service[field] for each, service in limited.items()} == dict.fromkeys(
        services, wanted
    )
    unlimited = {each for each, service in services.items() if not service.get(field)}
    assert unlimited == set(services) - ({"sandbox"} if name == "MEMORY" else set())


def test_the_example_of_variables_is_complete(command: list[str], tmp_path: Path) -> None:
    example = (REPOSITORY / ".env.example").read_text()
    named = re.findall(r"^#([A-Z_]+)=(.*)$", example, re.MULTILINE)
    text = (REPOSITORY / WHOLE).read_text()
    with_default = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))
    passed_on = re.findall(r"^ +([A-Z_]+):(?: #.*)?$", text, re.MULTILINE)
    wanted = {**dict.fromkeys(passed_on, ""), **with_default}
    files = (*VARIANTS["gpu"], "infra/compose/sandbox-full.yml")
    of_compose = {"COMPOSE_FILE": ":".join(files)}
    assert dict(named) == {**wanted, **of_compose}
    assert len(named) == len(dict(named))

    # Its defaults are those of the file, and each variable reaches a service from it.
    both = ("--format", "json")
    defaults = tmp_path / "defaults"
    defaults.write_text("".join(f"{name}={value}\n" for name, value in with_default.items()))
    plain = compose_config(command, "default", *both, profile="cli")
    assert compose_config(command, "default", *both, profile="cli", env_file=str(defaults)) == plain
    given = tmp_path / "given"
    given.write_text("".join(f"{name}=value-of-{name}\n" for name in passed_on))
    found = compose_config(command, "default", *both, profile="cli", env_file=str(given))
    assert [name for name in passed_on if f"value-of-{name}" not in found] == []


def test_the_command_line_asks_the_gateway_of_the_stack(command: list[str]) -> None:
    text = compose_config(command, "default", "--format", "json", profile="cli")
    stack = json.loads(text)["services"]
    cli = stack["cli"]
    assert cli["environment"]["TEMPER_API_URL"] == "http://api:8080"
    assert set(cli["networks"]) & set(stack["api"]["networks"])
    assert cli["build"]["target"] == "cli"
    assert (cli["user"], cli["read_only"], cli["cap_drop"]) == ("10001:10001", True, ["ALL"])
    assert cli["restart"] == "no"


def test_only_workers_are_given_the_variables_of_trackers(services: Services, variant: str) -> None:
    trackers = {name.upper() for name in TrackerName}
    for name, service in services.items():
        variables = service.get("environment", {})
        of_trackers = {each.split("_")[0] for each in variables} & trackers
        assert of_trackers == (trackers if name in WORKERS else set()), name
        assert ("TEMPER_TRACKERS" in variables) is (name in WORKERS), name


def test_the_database_and_the_broker_have_a_separate_network(services: Services) -> None:
    for name in ("postgres", "redis"):
        assert set(services[name]["networks"]) == {"state"}


def test_an_override_file_enables_full_sandbox_isolation(
    command: list[str], variant: str, services: Services
) -> None:
    more = ("infra/compose/sandbox-full.yml",)
    full = json.loads(compose_config(command, variant, "--format", "json", more=more))["services"]

    sandbox = full.pop("sandbox")
    assert {name: service for name, service in services.items() if name != "sandbox"} == full
    assert sandbox["environment"]["TEMPER_SANDBOX_MINIMUM_TIER"] == "full"
    assert {"no-new-privileges:true", "seccomp=unconfined"} <= set(sandbox["security_opt"])
    assert (sandbox["user"], sandbox["cap_drop"]) == ("10001:10001", ["ALL"])
    assert not sandbox.get("cap_add")
    assert not sandbox.get("privileged")


def test_an_override_file_gives_the_sandbox_control_groups_of_its_own(
    command: list[str], variant: str, services: Services
) -> None:
    more = ("infra/compose/sandbox-cgroups.yml",)
    with_groups = json.loads(compose_config(command, variant, "--format", "json", more=more))[
        "services"
    ]

    sandbox, default = with_groups.pop("sandbox"), services["sandbox"]
    assert {name: service for name, service in services.items() if name != "sandbox"} == with_groups
    assert sandbox.pop("cgroup") == "private"  # or the host's groups would be writable, too
    assert set(sandbox.pop("security_opt")) == {"no-new-privileges:true", "writable-cgroups=true"}
    assert sandbox == {name: value for name, value in default.items() if name != "security_opt"}
