"""Settings that say what tools and rewards reach, for the processes that call them."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr

from services.contracts.evaluations import RemoteModel
from services.contracts.origins import Origin
from services.core.settings import CommaSeparated, Folder, ProcessSettings, split_commas


class ToolSettings(ProcessSettings):
    """Where the tool services are, which keys open what, and which functions may be called."""

    sandbox_url: Origin = Field(
        default="http://127.0.0.1:8081", description="Where the sandbox is."
    )
    sandbox_api_key: SecretStr | None = Field(
        default=None, description="Key that the sandbox is shown."
    )
    retrieval_url: Origin = Field(
        default="http://127.0.0.1:8082", description="Where the retrieval service is."
    )
    retrieval_api_key: SecretStr | None = Field(
        default=None, description="Key that the retrieval service is shown."
    )
    endpoint_keys: dict[Origin, str] = Field(
        default_factory=dict,
        repr=False,
        description="JSON object: API key by origin of a remote model, tool or reward.",
    )
    judge_models: dict[str, RemoteModel] = Field(
        default_factory=dict,
        description="JSON object: {base_url, model} by the name under which rewards and graders "
        "ask for a judge.",
    )
    allowed_callables: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Python functions that tools and rewards may call, as dotted paths, "
        "comma-separated.",
    )
    callables_folder: Folder | None = Field(
        default=None, description="Where the modules of those functions are, if not installed."
    )
