"""What the operator allows tools, rewards and graders to reach, and how a child receives it."""

from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.models.registered import RemoteModel
from services.contracts.origins import GATEWAY_ORIGINS, Origin
from services.core.artifacts import ModelSource
from services.core.process.runtimes import Accelerator, Runtime, RuntimeMissing, find_runtime
from services.core.tool_settings import ToolSettings

VARIABLE = "TEMPER_OPERATOR_ENVIRONMENT"
"""Environment variable of a child. It carries keys, which are in no file of a job."""
REWARD_MODEL_RUNTIMES = ("training", "vllm")
"""Runtimes that can load a reward model, in order of preference."""


class OperatorEnvironment(BaseModel):
    """Addresses and keys of the tool services, judges, user functions and reward models.

    ``reward_models`` are folders by the names of registered models, and the own code of
    ``trusted_reward_models`` may run; ``model_python`` is the interpreter that loads them, null if
    no runtime can. ``runtimes`` is the folder of those that graders may need, null for none.
    ``oracles`` are functions of a molecule by the property that they tell.
    ``agent_commands`` are the programs of agents, with their arguments, by name.
    ``mcp_commands`` are the programs of MCP servers, likewise.
    ``agent_host`` is the address at which agents reach the policy that they play.
    ``verdicts`` is the file that keeps the answers of judges, null for none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sandbox_url: Origin = "http://127.0.0.1:8081"
    sandbox_api_key: str | None = Field(default=None, repr=False)
    retrieval_url: Origin = "http://127.0.0.1:8082"
    retrieval_api_key: str | None = Field(default=None, repr=False)
    gateway_origins: tuple[Origin, ...] = GATEWAY_ORIGINS
    endpoint_keys: dict[Origin, str] = Field(default_factory=dict, repr=False)
    judge_models: dict[str, RemoteModel] = Field(default_factory=dict)
    allowed_callables: tuple[str, ...] = ()
    callables_folder: Path | None = None
    oracles: dict[str, str] = Field(default_factory=dict)
    reward_models: dict[str, Path] = Field(default_factory=dict)
    trusted_reward_models: tuple[str, ...] = ()
    model_python: Path | None = None
    runtimes: Path | None = None
    verdicts: Path | None = None
    agent_commands: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    mcp_commands: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    agent_host: str = "127.0.0.1"
    attempts: int = Field(default=4, ge=1, description="Per request that a service left open.")

    @classmethod
    def of(
        cls,
        settings: ToolSettings,
        reward_models: Mapping[str, ModelSource] | None = None,
        *,
        attempts: int = 4,
        verdicts: Path | None = None,
    ) -> "OperatorEnvironment":
        """The operator's settings, and the reward models that a job needs.

        Raises `RuntimeMissing` if these cannot be loaded.
        """
        models = reward_models or {}
        sandbox_key, retrieval_key = settings.sandbox_api_key, settings.retrieval_api_key
        return cls(
            sandbox_url=settings.sandbox_url,
            sandbox_api_key=sandbox_key.get_secret_value() if sandbox_key else None,
            retrieval_url=settings.retrieval_url,
            retrieval_api_key=retrieval_key.get_secret_value() if retrieval_key else None,
            gateway_origins=tuple(settings.gateway_origins),
            endpoint_keys=settings.endpoint_keys,
            judge_models=settings.judge_models,
            allowed_callables=tuple(settings.allowed_callables),
            callables_folder=settings.callables_folder,
            oracles={**settings.oracles},
            reward_models={name: Path(each.location) for name, each in models.items()},
            trusted_reward_models=tuple(name for name, each in models.items() if each.trusted),
            model_python=_model_python(settings.runtimes_folder) if reward_models else None,
            runtimes=settings.runtimes_folder,
            agent_commands={name: tuple(each) for name, each in settings.agent_commands.items()},
            mcp_commands={name: tuple(each) for name, each in settings.mcp_commands.items()},
            agent_host=settings.agent_host,
            attempts=attempts,
            verdicts=verdicts,
        )

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> "OperatorEnvironment":
        """Read and remove the worker's variable, so that grandchildren inherit no keys.

        Defaults if nothing was passed.
        """
        text = environ.pop(VARIABLE, None)
        return cls() if text is None else cls.model_validate_json(text)

    def variables(self) -> dict[str, str]:
        """Environment variables of a child, for `take_from` there."""
        return {VARIABLE: self.model_dump_json()}

    def key_of(self, origin: str) -> str | None:
        """The operator's key for a service at that origin."""
        return self.endpoint_keys.get(origin)


def _model_python(runtimes: Path) -> Path:
    """Of the runtime that is preferred among those that compute on GPUs, else among all."""
    found: list[Runtime] = []
    for name in REWARD_MODEL_RUNTIMES:
        with suppress(RuntimeMissing):
            found.append(find_runtime(runtimes, name))
    if not found:
        return find_runtime(runtimes, REWARD_MODEL_RUNTIMES[-1]).python
    return max(found, key=lambda each: each.accelerator is Accelerator.CUDA).python
