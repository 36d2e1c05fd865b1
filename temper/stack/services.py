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


@dataclass(frozen=True)
class Address:
    """Where the gateway of the local stack listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a URL."""
        return f"http://{self.host}:{self.port}"


WORKERS = (Service.TRAINER, Service.EVALUATOR)
"""The services that sign on at the gateway as workers, in the order in which they are ended."""


def command(service: Service, arguments: list[str]) -> list[str]:
    """Return the command that runs a service in this process's own environment."""
    # -P keeps a folder named services, where the user happens to stand, out of the way.
    return [sys.executable, "-P", "-m", f"services.{service.value}", *arguments]


def environment(home: str, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a service: the caller's, without the key of the client."""
    inherited = dict(os.environ if variables is None else variables)
    inherited.pop("TEMPER_API_KEY", None)
    return {**inherited, "TEMPER_HOME": home}
