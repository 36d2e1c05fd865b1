"""The services of the local stack, and how each is started."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Service(StrEnum):
    """A service that ``temper serve`` can start."""

    API = "api"  # the gateway, with its dispatcher
    TRAINER = "trainer"  # runs fine-tuning jobs
    EVALUATOR = "evaluator"  # runs evaluations and rollouts
    SANDBOX = "sandbox"  # runs code
    RETRIEVAL = "retrieval"  # searches passages
    INDEXER = "indexer"  # builds indexes of passages


@dataclass(frozen=True)
class Address:
    """Where a service of the local stack listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a URL."""
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True)
class Tool:
    """A service that the gateway passes requests on to, and that workers call.

    They look for it on loopback at its ``port`` unless ``url_variable`` says otherwise, and show
    it the key of ``key_variable``.
    """

    port: int
    url_variable: str
    key_variable: str


TOOLS = {
    Service.SANDBOX: Tool(8081, "TEMPER_SANDBOX_URL", "TEMPER_SANDBOX_API_KEY"),
    Service.RETRIEVAL: Tool(8082, "TEMPER_RETRIEVAL_URL", "TEMPER_RETRIEVAL_API_KEY"),
}

USERS_OF_TOOLS = (Service.API, Service.TRAINER, Service.EVALUATOR)
"""The services that call tools: the gateway for its clients, workers for the models they train."""

WORKERS = (Service.TRAINER, Service.EVALUATOR, Service.INDEXER)
"""The services that sign on at the gateway as workers, in the order in which they are ended."""

PORT_OPTIONS = {
    Service.API: "--port",
    Service.SANDBOX: "--sandbox-port",
    Service.RETRIEVAL: "--retrieval-port",
}
"""The services that are told where to listen, and the options of ``temper up`` that tell it."""

DISPENSABLE = frozenset(TOOLS)
"""The services without which jobs still run."""

_MODULES = {Service.INDEXER: "services.retrieval.worker"}
"""Of the services that are not the whole of a folder of their name."""

# Programs of strangers run close to this process: it knows what it needs, and no secret.
OF_THE_SANDBOX = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("TEMPER_RUNTIMES", "TEMPER_LOG_LEVEL", "TEMPER_LOG_JSON"),
        *("TEMPER_API_KEY_HASHES", "TEMPER_ALLOW_KEYLESS", "TEMPER_ALLOWED_HOSTS"),
    }
)
OF_THE_SANDBOX_PREFIXES = ("LC_", "TEMPER_SANDBOX_")
OF_THE_GATEWAY = frozenset(
    name for tool in TOOLS.values() for name in (tool.url_variable, tool.key_variable)
)


def command(service: Service, arguments: list[str]) -> list[str]:
    """Return the command that runs a service in this process's own environment."""
    # -P keeps a folder named services, where the user happens to stand, out of the way.
    module = _MODULES.get(service, f"services.{service.value}")
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(
    service: Service, home: str, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a service: the caller's, without the key of the client.

    The sandbox gets only what it is known to need of it, and the retrieval service nothing that
    opens the doors of others.
    """
    inherited = dict(os.environ if variables is None else variables)
    inherited.pop("TEMPER_API_KEY", None)
    if service is Service.SANDBOX:
        inherited = {name: value for name, value in inherited.items() if _is_the_sandboxs(name)}
    if service is Service.RETRIEVAL:
        inherited = {name: value for name, value in inherited.items() if name not in OF_THE_GATEWAY}
    return {**inherited, "TEMPER_HOME": home}


def _is_the_sandboxs(name: str) -> bool:
    if name in OF_THE_GATEWAY:
        return False
    return name in OF_THE_SANDBOX or name.startswith(OF_THE_SANDBOX_PREFIXES)
