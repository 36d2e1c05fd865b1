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
    EVALUATOR = "evaluator"  # runs evaluations
    SANDBOX = "sandbox"  # runs code


@dataclass(frozen=True)
class Address:
    """Where a service of the local stack listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a URL."""
        return f"http://{self.host}:{self.port}"


SANDBOX_PORT = 8081
"""Where the gateway looks for a sandbox that nobody has placed elsewhere."""

WORKERS = (Service.TRAINER, Service.EVALUATOR)
"""The services that sign on at the gateway as workers, in the order in which they are ended."""

PORT_OPTIONS = {Service.API: "--port", Service.SANDBOX: "--sandbox-port"}
"""The services that are told where to listen, and the options of ``temper up`` that tell it."""

DISPENSABLE = frozenset({Service.SANDBOX})
"""The services without which jobs still run."""

# Programs of strangers run close to this process: it knows what it needs, and no secret.
OF_THE_SANDBOX = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("TEMPER_RUNTIMES", "TEMPER_LOG_LEVEL", "TEMPER_LOG_JSON"),
        *("TEMPER_API_KEY_HASHES", "TEMPER_ALLOW_KEYLESS", "TEMPER_ALLOWED_HOSTS"),
    }
)
OF_THE_SANDBOX_PREFIXES = ("LC_", "TEMPER_SANDBOX_")
OF_THE_GATEWAY = frozenset({"TEMPER_SANDBOX_URL", "TEMPER_SANDBOX_API_KEY"})


def command(service: Service, arguments: list[str]) -> list[str]:
    """Return the command that runs a service in this process's own environment."""
    # -P keeps a folder named services, where the user happens to stand, out of the way.
    return [sys.executable, "-P", "-m", f"services.{service.value}", *arguments]


def environment(
    service: Service, home: str, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a service: the caller's, without the key of the client.

    The sandbox gets only what it is known to need of it.
    """
    inherited = dict(os.environ if variables is None else variables)
    inherited.pop("TEMPER_API_KEY", None)
    if service is Service.SANDBOX:
        inherited = {name: value for name, value in inherited.items() if _is_the_sandboxs(name)}
    return {**inherited, "TEMPER_HOME": home}


def _is_the_sandboxs(name: str) -> bool:
    if name in OF_THE_GATEWAY:
        return False
    return name in OF_THE_SANDBOX or name.startswith(OF_THE_SANDBOX_PREFIXES)
