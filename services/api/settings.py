"""Settings of the gateway process."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from services.common.settings import CommaSeparated, Settings, split_commas


class ApiSettings(Settings):
    """Who may ask, how much, and what jobs may reach."""

    api_key_hashes: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[], repr=False, description="SHA-256 of each accepted key, comma-separated."
    )
    allow_keyless: bool = Field(
        default=False, description="Listen beyond loopback without keys (a private network)."
    )
    max_upload_bytes: int = Field(default=16 << 30, ge=1, description="Largest uploaded file.")
    max_event_streams: int = Field(
        default=256, ge=1, description="Event streams served at once; more get 503."
    )
    allowed_endpoints: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Origins of remote models that evaluations may call, comma-separated.",
    )
    reconcile_seconds: float = Field(
        default=3.0, ge=0.1, le=300.0, description="How often the dispatcher repairs."
    )
