"""What the operator has set for rewards, and how it reaches the process that gives them."""

from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.models import RemoteModel
from services.contracts.origins import Origin
from services.core.process.runtimes import RuntimeMissing, find_runtime

if TYPE_CHECKING:  # the gateway, which rewards samples too, knows no workers
    from services.core.worker.settings import WorkerSettings

VARIABLE = "TEMPER_REWARD_ENVIRONMENT"
"""Of a child's environment. It carries keys, which are in no file of a job."""
RUNTIMES = ("training", "vllm")
"""Those that can load a reward model; the first that is installed does."""


class RewardEnvironment(BaseModel):
    """Where rewards find the sandbox, judges, functions and reward models.

    ``reward_models`` are folders by the names of registered models; ``model_python`` is the
    interpreter that loads them, null where none can be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sandbox_url: Origin = "http://127.0.0.1:8081"
    sandbox_api_key: str | None = Field(default=None, repr=False)
    endpoint_keys: dict[Origin, str] = Field(default_factory=dict, repr=False)
    judge_models: dict[str, RemoteModel] = Field(default_factory=dict)
    allowed_callables: tuple[str, ...] = ()
    callables_folder: Path | None = None
    reward_models: dict[str, Path] = Field(default_factory=dict)
    model_python: Path | None = None
    attempts: int = Field(
        default=4, ge=1, description="Of a request that a service did not answer."
    )

    @classmethod
    def of(
        cls, settings: "WorkerSettings", reward_models: Mapping[str, Path] | None = None
    ) -> "RewardEnvironment":
        """What a worker's settings say; ``reward_models`` are those that a job needs.

        Raises `RuntimeMissing` where they cannot be loaded.
        """
        key = settings.sandbox_api_key
        python = _model_python(settings.runtimes_folder) if reward_models else None
        return cls(
            sandbox_url=settings.sandbox_url,
            sandbox_api_key=key.get_secret_value() if key else None,
            endpoint_keys=settings.endpoint_keys,
            judge_models=settings.judge_models,
            allowed_callables=tuple(settings.allowed_callables),
            callables_folder=settings.callables_folder,
            reward_models=dict(reward_models or {}),
            model_python=python,
        )

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> "RewardEnvironment":
        """What a worker has passed to this process, taken out of its environment: programs that
        it starts are shown no key. Defaults where nothing was passed."""
        text = environ.pop(VARIABLE, None)
        return cls() if text is None else cls.model_validate_json(text)

    def variables(self) -> dict[str, str]:
        """Variables of the environment of a child, for `take_from` there."""
        return {VARIABLE: self.model_dump_json()}

    def key_of(self, origin: str) -> str | None:
        """The operator's key for a service at that origin."""
        return self.endpoint_keys.get(origin)


def _model_python(runtimes: Path) -> Path:
    for name in RUNTIMES[:-1]:
        with suppress(RuntimeMissing):
            return find_runtime(runtimes, name).python
    return find_runtime(runtimes, RUNTIMES[-1]).python
