"""Settings of a worker process."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from services.common.contracts.evaluations import RemoteModel
from services.common.contracts.origins import Origin
from services.common.contracts.tool_origins import GATEWAY_ORIGINS
from services.common.settings import CommaSeparated, Folder, Settings, split_commas


class WorkerSettings(Settings):
    """What one worker process offers, how it runs its children, and what tools it finds."""

    host_name: str = Field(default="", description="Name of this host in leases; empty: its own.")
    cpu_slots: int = Field(
        default=1, ge=0, le=256, description="Jobs without a GPU that run at once on this host."
    )
    validation_slots: int = Field(
        default=2, ge=1, le=64, description="Files that one worker validates at once."
    )
    endpoint_keys: dict[Origin, str] = Field(
        default_factory=dict,
        repr=False,
        description="JSON object: API key by origin of a remote model, tool or reward.",
    )
    judge_models: dict[str, RemoteModel] = Field(
        default_factory=dict,
        description="JSON object: {base_url, model} by the name that rewards and graders ask for.",
    )
    sandbox_url: Origin = Field(
        default="http://127.0.0.1:8081", description="Where jobs find the sandbox."
    )
    sandbox_api_key: SecretStr | None = Field(
        default=None, description="Key that jobs show the sandbox."
    )
    retrieval_url: Origin = Field(
        default="http://127.0.0.1:8082", description="Where jobs find the retrieval service."
    )
    retrieval_api_key: SecretStr | None = Field(
        default=None, description="Key that jobs show the retrieval service."
    )
    gateway_origins: Annotated[list[Origin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=list(GATEWAY_ORIGINS),
        description="Addresses of the gateway as tool files write it: its /run_code is the "
        "sandbox and its /retrieve the retrieval service, comma-separated.",
    )
    allowed_callables: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Python functions that tools and rewards may call, as dotted paths, "
        "comma-separated.",
    )
    callables_folder: Folder | None = Field(
        default=None, description="Where the modules of those functions are, if not installed."
    )
