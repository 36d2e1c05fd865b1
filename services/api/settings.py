"""Settings of the gateway process."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from services.common.contracts.evaluations import RemoteModel
from services.common.contracts.origins import Origin
from services.common.contracts.retrieval import MAX_BODY_BYTES as MAX_SEARCH_BYTES
from services.common.contracts.sandbox import MAX_BODY_BYTES
from services.common.settings import CommaSeparated, Folder, Settings, split_commas
from services.common.web.access import AccessSettings


class ApiSettings(Settings, AccessSettings):
    """How much may be asked, what jobs may reach, and where tools are."""

    max_upload_bytes: int = Field(default=16 << 30, ge=1, description="Largest uploaded file.")
    max_event_streams: int = Field(
        default=256, ge=1, description="Event streams served at once; more get 503."
    )
    allowed_endpoints: Annotated[list[Origin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Origins of remote models, tools and rewards that jobs may call, "
        "comma-separated.",
    )
    allowed_callables: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Python functions that tools and rewards may call, as dotted paths, "
        "comma-separated.",
    )
    callables_folder: Folder | None = Field(
        default=None, description="Where the modules of those functions are, if not installed."
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
    sandbox_url: Origin = Field(
        default="http://127.0.0.1:8081", description="Where the sandbox is."
    )
    sandbox_api_key: SecretStr | None = Field(
        default=None, description="Key that the sandbox is shown."
    )
    sandbox_max_body_bytes: int = Field(
        default=MAX_BODY_BYTES, ge=1 << 16, description="Largest request to run code."
    )
    retrieval_url: Origin = Field(
        default="http://127.0.0.1:8082",
        description="Where the retrieval service is.",
    )
    retrieval_api_key: SecretStr | None = Field(
        default=None, description="Key that the retrieval service is shown."
    )
    retrieval_max_body_bytes: int = Field(
        default=MAX_SEARCH_BYTES,
        ge=1 << 16,
        description="Largest search, or batch of documents.",
    )
    max_tool_calls: int = Field(
        default=1024,
        ge=1,
        description="Requests passed on at once to one tool service; more get 504.",
    )
    tool_call_seconds: float = Field(
        default=1800.0, gt=0, description="Longest time that a request passed on may take."
    )
    reconcile_seconds: float = Field(
        default=3.0, ge=0.1, le=300.0, description="How often the dispatcher repairs."
    )
