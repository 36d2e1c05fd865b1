"""Settings of the gateway process."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from services.contracts.origins import Origin, PageOrigin
from services.contracts.retrieval.search import MAX_BODY_BYTES as MAX_SEARCH_BYTES
from services.contracts.sandbox.programs import MAX_BODY_BYTES
from services.core.choice_settings import ChoiceSettings
from services.core.export_settings import ExportSettings
from services.core.settings import Settings, split_commas
from services.core.tool_settings import ToolSettings
from services.core.web.auth import AccessSettings


class ApiSettings(Settings, AccessSettings, ToolSettings, ExportSettings, ChoiceSettings):
    """Rate limits, allowed destinations, and the addresses of the tool services."""

    max_upload_bytes: int = Field(default=16 << 30, ge=1, description="Largest uploaded file.")
    max_campaign_data_bytes: int = Field(
        default=16 << 30, ge=1, description="Largest total size of a campaign's data sets."
    )
    max_event_streams: int = Field(
        default=256, ge=1, description="Concurrent event streams; more get 503."
    )
    allowed_endpoints: Annotated[list[Origin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Origins of remote models, tools and rewards that jobs may call, "
        "comma-separated.",
    )
    sandbox_max_body_bytes: int = Field(
        default=MAX_BODY_BYTES, ge=1 << 16, description="Largest request to run code."
    )
    retrieval_max_body_bytes: int = Field(
        default=MAX_SEARCH_BYTES,
        ge=1 << 16,
        description="Largest search, or batch of documents.",
    )
    max_tool_calls: int = Field(
        default=1024,
        ge=1,
        description="Concurrent requests to one tool service; more get 504.",
    )
    tool_call_seconds: float = Field(
        default=1800.0, gt=0, description="Time limit of a request to a tool service."
    )
    served_models: Annotated[list[str], NoDecode, BeforeValidator(split_commas)] = Field(
        default=["*"],
        description="Models that a request for inference may start, by name with wildcards, "
        "comma-separated; others must be deployed.",
    )
    serving_wait_seconds: float = Field(
        default=120.0,
        ge=0.0,
        le=3600.0,
        description="Longest time a request waits for the engine of its model; then 503.",
    )
    serving_silence_seconds: float = Field(
        default=1800.0,
        gt=0.0,
        description="Longest pause in the response of a served model; without streaming, its whole "
        "duration.",
    )
    cors_origins: Annotated[list[PageOrigin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Sites whose pages may use the gateway (CORS), such as https://app.example, "
        "comma-separated; pages send their key.",
    )
    max_serving_calls: int = Field(
        default=4096,
        ge=1,
        description="Concurrent requests to served models; more get 503.",
    )
    requests_per_minute: int | None = Field(
        default=None,
        ge=1,
        description="Requests per minute of each key to served models; more get 429.",
    )
    tokens_per_minute: int | None = Field(
        default=None,
        ge=1,
        description="Prompt and completion tokens per minute of each key; then 429.",
    )
    response_days: float = Field(
        default=30.0, gt=0.0, description="Stored responses are deleted after this."
    )
    response_bytes: int = Field(
        default=4 << 30,
        ge=1 << 20,
        description="Bytes of all stored responses; beyond them the oldest are deleted.",
    )
    response_seconds: float = Field(
        default=3600.0,
        gt=0.0,
        description="Time limit of a response, its tools and the wait for its engine included.",
    )
    response_turns: int = Field(
        default=64, ge=1, description="Turns of the model in a response that uses tools."
    )
    response_tokens: int = Field(
        default=131_072,
        ge=1,
        description="Completion tokens after which a response begins no further turn.",
    )
    background_responses: int = Field(
        default=64,
        ge=1,
        description="Background responses that a gateway plays at a time; others wait.",
    )
    webhook_private_addresses: bool = Field(
        default=False,
        description="Whether webhooks may have loopback, private and link-local addresses.",
    )
    alert_kl: float = Field(
        default=1.0,
        gt=0.0,
        description="KL per token to the reference, mean of ten steps, that raises an alert.",
    )
    alert_sampler_kl: float = Field(
        default=0.05,
        gt=0.0,
        description="KL per token between learner and sampler, mean of ten steps, that raises an "
        "alert.",
    )
    alert_failure_share: float = Field(
        default=0.1,
        ge=0.0,
        le=1.0,
        description="Share of a training's samples lost to failed tools that raises an alert.",
    )
    alert_reward_drop: float = Field(
        default=0.5,
        gt=0.0,
        le=10.0,
        description="Share of its gain that a mean reward may lose before an alert is raised.",
    )
    alert_wait_seconds: float = Field(
        default=3600.0, gt=0.0, description="Wait of a job that raises an alert."
    )
    alert_disk_share: float = Field(
        default=0.05,
        ge=0.0,
        le=1.0,
        description="Free share of the disk of TEMPER_HOME below which an alert is raised.",
    )
    reconcile_seconds: float = Field(
        default=3.0,
        ge=0.1,
        le=300.0,
        description="Seconds between reconciliations.",
    )
    retention_days: float | None = Field(
        default=None,
        gt=0,
        description="Finished jobs without a registered model are deleted after this; null: never.",
    )
    retention_jobs: int | None = Field(
        default=None,
        ge=0,
        description="How many finished jobs without a registered model are kept; null: all.",
    )
