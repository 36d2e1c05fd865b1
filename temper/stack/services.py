"""The services of the local stack, and how to start them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from temper.stack.server_code import check_server_code, server_command, server_environment


class Service(StrEnum):
    """A service that ``temper serve`` can run."""

    API = "api"  # the gateway with its dispatcher
    TRAINER = "trainer"  # runs fine-tuning jobs
    EVALUATOR = "evaluator"  # runs evaluations and rollouts
    SANDBOX = "sandbox"  # runs code
    RETRIEVAL = "retrieval"  # searches passages
    INDEXER = "indexer"  # builds indexes of passages
    CAMPAIGNS = "campaigns"  # runs campaigns


@dataclass(frozen=True)
class Address:
    """The address on which a service listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as URL."""
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True)
class ServedTool:
    """A tool service: the gateway proxies it and workers call it.

    Default address: loopback at ``port``. The environment variables override its URL and hold the
    API key for it.
    """

    port: int
    url_variable: str
    key_variable: str


TOOLS = {
    Service.SANDBOX: ServedTool(8081, "TEMPER_SANDBOX_URL", "TEMPER_SANDBOX_API_KEY"),
    Service.RETRIEVAL: ServedTool(8082, "TEMPER_RETRIEVAL_URL", "TEMPER_RETRIEVAL_API_KEY"),
}

USERS_OF_TOOLS = (Service.API, Service.TRAINER, Service.EVALUATOR, Service.CAMPAIGNS)
"""Services that call tool services: the gateway for clients, workers for rollouts and scripts."""

WORKERS = (Service.TRAINER, Service.EVALUATOR, Service.INDEXER, Service.CAMPAIGNS)
"""Services that register with the gateway as workers, in stop order."""

PORT_OPTIONS = {
    Service.API: "--port",
    Service.SANDBOX: "--sandbox-port",
    Service.RETRIEVAL: "--retrieval-port",
}
"""Services that listen, and the options of ``temper up`` for their ports."""

_MODULES = {Service.INDEXER: "services.retrieval.worker"}
"""Modules of services that are not named after their folder."""

# Untrusted programs run next to this process: pass only what it needs, and no secrets.
SANDBOX_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("TEMPER_RUNTIMES", "TEMPER_LOG_LEVEL", "TEMPER_LOG_JSON"),
        *("TEMPER_API_KEY_HASHES", "TEMPER_ALLOW_KEYLESS", "TEMPER_ALLOWED_HOSTS"),
    }
)
SANDBOX_PREFIXES = ("LC_", "TEMPER_SANDBOX_")
GATEWAY_VARIABLES = frozenset(
    name for tool in TOOLS.values() for name in (tool.url_variable, tool.key_variable)
)


def command(service: Service, arguments: list[str]) -> list[str]:
    """Return the command that runs a service with this Python; raises `ServerMissing`."""
    return server_command(_MODULES.get(service, f"services.{service.value}"), *arguments)


def check_installed() -> None:
    """Raise `ServerMissing` where no stack can run, for want of the services' code."""
    check_server_code(f"services.{Service.API.value}")


def environment(
    service: Service, home: str, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a service: the caller's without the client's key.

    The sandbox gets an allowlist; the retrieval service no keys of other services.
    """
    inherited = dict(os.environ if variables is None else variables)
    inherited.pop("TEMPER_API_KEY", None)
    if service is Service.SANDBOX:
        inherited = {name: value for name, value in inherited.items() if _is_for_sandbox(name)}
    if service is Service.RETRIEVAL:
        inherited = {
            name: value for name, value in inherited.items() if name not in GATEWAY_VARIABLES
        }
    return server_environment({**inherited, "TEMPER_HOME": home})


def _is_for_sandbox(name: str) -> bool:
    if name in GATEWAY_VARIABLES:
        return False
    return name in SANDBOX_VARIABLES or name.startswith(SANDBOX_PREFIXES)
