"""Addresses and keys of a local stack: where services listen, and how they authenticate."""

import hashlib
import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from temper.settings import ClientSettings
from temper.stack.services import TOOLS, USERS_OF_TOOLS, Address, Service

LOOPBACK = "127.0.0.1"
HASHES = "TEMPER_API_KEY_HASHES"


def addresses_of(
    settings: ClientSettings, ports: Mapping[Service, int | None]
) -> dict[Service, Address]:
    """Return the address of every service that listens, except external tool services.

    Port 0 means any free port. A tool service without a port gets its default one, or a free one
    if that is in use or the gateway's port is 0.
    """
    port = ports[Service.API] or 0
    elsewhere = {
        Service.SANDBOX: settings.sandbox_url,
        Service.RETRIEVAL: settings.retrieval_url,
    }
    addresses = {Service.API: _at(port, {})}
    for service, tool in TOOLS.items():
        if elsewhere[service]:
            continue
        own = ports.get(service)
        if own is None:
            own = tool.port if port != 0 and is_free(tool.port) else 0
        addresses[service] = _at(own, addresses)
    return addresses


def _at(port: int, others: Mapping[Service, Address]) -> Address:
    """Return the address of a port; for 0, of a free one that no other service has."""
    if port:
        return Address(LOOPBACK, port)
    given = {address.port for address in others.values()}
    while (free := any_free()) in given:
        pass  # nothing listens on it yet, so the system may return it again
    return Address(LOOPBACK, free)


def is_free(port: int) -> bool:
    """Whether a server can listen on the port."""
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def any_free() -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass(frozen=True)
class Access:
    """The key for the gateway, and the environment variables of each service."""

    api_key: str | None = field(repr=False)
    variables: Mapping[Service, Mapping[str, str]] = field(repr=False)


def access_of(settings: ClientSettings, addresses: Mapping[Service, Address]) -> Access:
    """Return the keys and addresses that the stack's processes use among themselves.

    If keys are required and the settings have none, keys are generated for the life of the stack:
    one for the gateway, and one per tool service for the gateway and the workers. A service that
    checks a key gets only its hash. The campaigns worker gets the gateway's address and key, and
    access to run scripts in the stack's sandbox.
    """
    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    is_open = not settings.api_key_hashes.strip(" ,")
    variables: dict[Service, dict[str, str]] = {each: {} for each in USERS_OF_TOOLS}
    if key is None and not is_open:
        key = secrets.token_urlsafe(32)
        variables[Service.API][HASHES] = _with_hash_of(settings, key)
    for service, tool in TOOLS.items():
        if service not in addresses:
            continue
        known = {tool.url_variable: addresses[service].url}
        variables[service] = {}
        if not is_open:
            known[tool.key_variable] = secrets.token_urlsafe(32)
            variables[service][HASHES] = _with_hash_of(settings, known[tool.key_variable])
        for each in USERS_OF_TOOLS:
            variables[each] |= known
    # This worker creates jobs like any client.
    variables[Service.CAMPAIGNS]["TEMPER_GATEWAY_URL"] = addresses[Service.API].url
    if key is not None:
        variables[Service.CAMPAIGNS]["TEMPER_GATEWAY_API_KEY"] = key
    if Service.SANDBOX in addresses:
        of_worker, of_sandbox = _script_access(settings, addresses)
        variables[Service.CAMPAIGNS] |= of_worker
        variables[Service.SANDBOX] |= of_sandbox
    return Access(key, variables)


def _script_access(
    settings: ClientSettings, addresses: Mapping[Service, Address]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of the campaigns worker and the sandbox for data scripts and their LLMs.

    The key is for scripts only, and exists even in keyless stacks: no client may read the
    datasets.
    """
    key = secrets.token_urlsafe(32)
    data = str(settings.home / "sandbox" / "campaigns")
    proxy = _at(0, addresses)
    worker = {
        "TEMPER_CAMPAIGN_SCRIPT_KEY": key,
        "TEMPER_CAMPAIGN_SCRIPT_DATA": data,
        "TEMPER_CAMPAIGN_PROXY_PORT": str(proxy.port),
    }
    sandbox = {
        "TEMPER_SANDBOX_SCRIPT_KEY_HASHES": _hash(key),
        "TEMPER_SANDBOX_SCRIPT_FOLDERS": json.dumps({"campaigns": data}),
        "TEMPER_SANDBOX_SCRIPT_NETWORK": f"{proxy.host}:{proxy.port}",
    }
    return worker, sandbox


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _with_hash_of(settings: ClientSettings, key: str) -> str:
    return f"{settings.api_key_hashes},{_hash(key)}"
