"""What the operator has set for tools, and how it reaches the process that calls them."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.origins import GATEWAY_ORIGINS, Origin

if TYPE_CHECKING:  # the gateway checks tools, and has nothing of a worker
    from services.core.worker.settings import WorkerSettings

VARIABLE = "TEMPER_TOOL_ENVIRONMENT"
"""Of a child's environment. It carries keys, which are in no file of a job."""


class ToolEnvironment(BaseModel):
    """Where the tool services are, what they are shown, and which functions may be called."""

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
        """What a worker's settings say."""
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
        """What a worker has passed to this process, taken out of its environment: programs that
        it starts are shown no key. Defaults where nothing was passed."""
        text = environ.pop(VARIABLE, None)
        return cls() if text is None else cls.model_validate_json(text)

    def variables(self) -> dict[str, str]:
        """Variables of the environment of a child, for `take_from` there."""
        return {VARIABLE: self.model_dump_json()}
