"""Settings of the command line, and addresses and keys of a stack's services."""

import contextlib
import hashlib
import json
import socket
from pathlib import Path

import pytest

from temper.settings import load_settings
from temper.stack.addresses import LOOPBACK, access_of, addresses_of, any_free
from temper.stack.services import TOOLS, Address, Service

HASH = "a" * 64
NEITHER = {Service.API: Address(LOOPBACK, 1233)}
SANDBOX = NEITHER | {Service.SANDBOX: Address(LOOPBACK, 1234)}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        *("TEMPER_HOME", "TEMPER_API_KEY", "TEMPER_API_KEY_HASHES"),
        *("TEMPER_SANDBOX_URL", "TEMPER_SANDBOX_API_KEY"),
        *("TEMPER_RETRIEVAL_URL", "TEMPER_RETRIEVAL_API_KEY"),
    ):
        monkeypatch.delenv(name, raising=False)


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def test_a_gateway_with_keys_gets_a_generated_key_for_temper_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)

    access, another = access_of(load_settings(), NEITHER), access_of(load_settings(), NEITHER)

    assert access.api_key is not None
    accepted = access.variables[Service.API]["TEMPER_API_KEY_HASHES"]
    assert accepted == f"{HASH},{hash_of(access.api_key)}"
    assert access.api_key not in repr(access)
    assert access.api_key != another.api_key


def test_the_users_key_is_used_if_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)
    monkeypatch.setenv("TEMPER_API_KEY", "mine")

    access = access_of(load_settings(), NEITHER)

    assert access.api_key == "mine"
    assert access.variables[Service.API] == {}


@pytest.mark.parametrize("hashes", ["", " , "])
def test_a_keyless_stack_generates_no_keys_for_clients(
    hashes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", hashes)

    access = access_of(load_settings(), SANDBOX)

    assert access.api_key is None
    assert access.variables[Service.API] == {"TEMPER_SANDBOX_URL": "http://127.0.0.1:1234"}
    assert "TEMPER_API_KEY_HASHES" not in access.variables[Service.SANDBOX]


def test_tool_services_of_a_stack_with_keys_accept_the_gateways_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)
    monkeypatch.setenv("TEMPER_API_KEY", "mine")

    access = access_of(load_settings(), SANDBOX)

    key = access.variables[Service.API]["TEMPER_SANDBOX_API_KEY"]
    assert access.variables[Service.SANDBOX]["TEMPER_API_KEY_HASHES"] == f"{HASH},{hash_of(key)}"
    for worker in (Service.TRAINER, Service.EVALUATOR, Service.CAMPAIGNS):  # which call it
        assert access.variables[worker].items() >= {
            (name, access.variables[Service.API][name])
            for name in ("TEMPER_SANDBOX_URL", "TEMPER_SANDBOX_API_KEY")
        }
    assert key not in repr(access)


def test_the_campaigns_worker_alone_gets_the_key_for_scripts() -> None:
    access = access_of(load_settings(), SANDBOX)

    key = access.variables[Service.CAMPAIGNS]["TEMPER_CAMPAIGN_SCRIPT_KEY"]
    of_sandbox = access.variables[Service.SANDBOX]
    assert of_sandbox["TEMPER_SANDBOX_SCRIPT_KEY_HASHES"] == hash_of(key)
    folder = access.variables[Service.CAMPAIGNS]["TEMPER_CAMPAIGN_SCRIPT_DATA"]
    assert json.loads(of_sandbox["TEMPER_SANDBOX_SCRIPT_FOLDERS"]) == {"campaigns": folder}
    port = access.variables[Service.CAMPAIGNS]["TEMPER_CAMPAIGN_PROXY_PORT"]
    assert of_sandbox["TEMPER_SANDBOX_SCRIPT_NETWORK"] == f"{LOOPBACK}:{port}"
    assert port != "1234"
    others = [names for service, names in access.variables.items() if service != Service.CAMPAIGNS]
    assert key not in str(others)
    elsewhere = access_of(load_settings(), NEITHER).variables[Service.CAMPAIGNS]
    assert "TEMPER_CAMPAIGN_SCRIPT_KEY" not in elsewhere


@pytest.mark.parametrize(
    ("hashes", "key"), [("", None), ("", "mine"), (HASH, "mine"), (HASH, None)]
)
def test_the_campaigns_worker_gets_the_address_and_key_of_the_gateway(
    hashes: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", hashes)
    monkeypatch.setenv("TEMPER_API_KEY", key or "")

    access = access_of(load_settings(), NEITHER)

    variables = access.variables[Service.CAMPAIGNS]
    assert variables["TEMPER_GATEWAY_URL"] == "http://127.0.0.1:1233"
    assert variables.get("TEMPER_GATEWAY_API_KEY") == access.api_key
    assert (access.api_key is None) == (not hashes and key is None)


def ports(gateway: int, **tools: int) -> dict[Service, int | None]:
    return {Service.API: gateway, **{Service(name): port for name, port in tools.items()}}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_service_uses_its_default_port_unless_it_is_in_use(tool: Service) -> None:
    settings = load_settings()
    usual = TOOLS[tool].port
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # already in use
            taken.bind((LOOPBACK, usual))
        taken.listen()
        elsewhere = addresses_of(settings, ports(8080))[tool].port

    assert elsewhere not in (0, usual)
    assert addresses_of(settings, ports(8080, **{tool.value: 4321}))[tool].port == 4321


def test_a_stack_on_a_free_port_does_not_take_the_default_tool_ports() -> None:
    addresses = addresses_of(load_settings(), ports(0))

    usual = {tool.port for tool in TOOLS.values()}
    taken = {address.port for address in addresses.values()}
    assert len(taken) == 3
    assert taken.isdisjoint({0, *usual})


def test_services_get_distinct_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([5001, 5001, 5002, 5001, 5002, 5003])
    monkeypatch.setattr("temper.stack.addresses.any_free", lambda: next(free))

    addresses = addresses_of(load_settings(), ports(0))

    assert sorted(address.port for address in addresses.values()) == [5001, 5002, 5003]


def test_an_external_tool_service_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)
    for tool in TOOLS.values():
        monkeypatch.setenv(tool.url_variable, f"http://127.0.0.1:{any_free()}")
    settings = load_settings()

    addresses = addresses_of(settings, ports(8080))

    assert set(addresses) == {Service.API}
    variables = access_of(settings, addresses).variables[Service.API]
    assert not [tool for tool in TOOLS.values() if tool.url_variable in variables]
    assert not [tool for tool in TOOLS.values() if tool.key_variable in variables]


def test_an_empty_variable_means_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("TEMPER_HOME", "TEMPER_API_KEY", "TEMPER_GRACE_SECONDS"):
        monkeypatch.setenv(name, "")

    settings = load_settings()

    assert settings.home == tmp_path / ".temper"
    assert settings.api_key is None
