"""The operator's settings for tools, and how they reach the process that calls them."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.origins import GATEWAY_ORIGINS, Origin

if TYPE_CHECKING:  # the gateway checks tools, and has nothing of a worker
    from services.core.worker.settings import WorkerSettings

VARIABLE = "TEMPER_TOOL_ENVIRONMENT"
"""Environment variable of a child. It carries keys, which never go into a job's files."""


class ToolEnvironment(BaseModel):
    """Addresses and keys of the tool services, and the functions that may be called."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sandbox_url: Origin = "http://127.0.0.1:8081"
    sandbox_api_key: str | None = Field(default=None, repr=False)
    retrieval_url: Origin = "http://127.0.0.1:8082"
    retrieval_api_key: str | None = Field(default=None, repr=False)
    gateway_origins: tuple[Origin, ...] = GATEWAY_ORIGINS
    endpoint_keys: dict[Origin, str] = Field(default_factory=dict, repr=False)
    allowed_callables: tuple[str, ...] = ()
    callables_folder: Path | None = None

    @classmethod
    def of(cls, settings: "WorkerSettings") -> "ToolEnvironment":
        """From a worker's settings."""
        sandbox_key, retrieval_key = settings.sandbox_api_key, settings.retrieval_api_key
        return cls(
            sandbox_url=settings.sandbox_url,
            sandbox_api_key=sandbox_key.get_secret_value() if sandbox_key else None,
            retrieval_url=settings.retrieval_url,
            retrieval_api_key=retrieval_key.get_secret_value() if retrieval_key else None,
            gateway_origins=tuple(settings.gateway_origins),
            endpoint_keys=settings.endpoint_keys,
            allowed_callables=tuple(settings.allowed_callables),
            callables_folder=settings.callables_folder,
        )

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> "ToolEnvironment":
        """Take the worker's value out of the environment, so that child programs see no key;
        defaults if there is none."""
        text = environ.pop(VARIABLE, None)
        return cls() if text is None else cls.model_validate_json(text)

    def variables(self) -> dict[str, str]:
        """Environment variables for a child, read by `take_from`."""
        return {VARIABLE: self.model_dump_json()}
