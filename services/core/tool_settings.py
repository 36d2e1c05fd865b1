"""Settings of the processes that call tools and rewards."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from services.contracts.models.registered import RemoteModel
from services.contracts.origins import GATEWAY_ORIGINS, Origin
from services.contracts.rewards.graders import OracleName
from services.core.settings import CommaSeparated, Folder, ProcessSettings, split_commas


class ToolSettings(ProcessSettings):
    """Addresses of the tool services, their keys, and the functions that may be called."""

    sandbox_url: Origin = Field(
        default="http://127.0.0.1:8081", description="Address of the sandbox."
    )
    sandbox_api_key: SecretStr | None = Field(default=None, description="API key for the sandbox.")
    retrieval_url: Origin = Field(
        default="http://127.0.0.1:8082", description="Address of the retrieval service."
    )
    retrieval_api_key: SecretStr | None = Field(
        default=None, description="API key for the retrieval service."
    )
    endpoint_keys: dict[Origin, str] = Field(
        default_factory=dict,
        repr=False,
        description="JSON object: API keys by the origin of a remote model, tool or reward.",
    )
    judge_models: dict[str, RemoteModel] = Field(
        default_factory=dict,
        description="JSON object: {base_url, model} of the judges that rewards and graders may "
        "name.",
    )
    allowed_callables: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Python functions that tools and rewards may call, as dotted paths, "
        "comma-separated.",
    )
    callables_folder: Folder | None = Field(
        default=None, description="Folder with the modules of those functions, if not installed."
    )
    oracles: dict[OracleName, str] = Field(
        default_factory=dict,
        description="JSON object: dotted paths of functions that tell a property of a molecule, "
        "`f(smiles=...)`, for the sub-tasks drd2, jnk3 and gsk3b of ChemCoTBench.",
    )
    agent_commands: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="JSON object: programs that rollouts may run as agents, by name, each a list "
        "of the program and its arguments.",
    )
    mcp_commands: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="JSON object: MCP servers that rollouts and evaluations may start as programs, "
        "by name, each a list of the program and its arguments.",
    )
    agent_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address of this host on which a rollout's endpoint listens for its agent; an "
        "agent on another host needs one that it can reach.",
    )
    gateway_origins: Annotated[list[Origin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=list(GATEWAY_ORIGINS),
        description="Gateway addresses in tool files, comma-separated: their /run_code is the "
        "sandbox and their /retrieve the retrieval service.",
    )
