"""Settings of the gateway process."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode, SettingsConfigDict

from services.common.contracts.origins import Origin
from services.common.settings import CommaSeparated, Settings, split_commas


def _key_hash(text: str) -> str:
    if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
        raise ValueError("not the SHA-256 of a key; `temper keys new` prints one")
    return text.lower()


KeyHash = Annotated[str, AfterValidator(_key_hash)]


class ApiSettings(Settings):
    """Who may ask, how much, and what jobs may reach."""

    # A key that was set where its hash belongs must not end up in the message about it.
    model_config = SettingsConfigDict(hide_input_in_errors=True)

    api_key_hashes: Annotated[list[KeyHash], NoDecode, BeforeValidator(split_commas)] = Field(
        default=[], repr=False, description="SHA-256 of each accepted key, comma-separated."
    )
    allow_keyless: bool = Field(
        default=False, description="Listen beyond loopback without keys (a private network)."
    )
    allowed_hosts: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Host names with a dot under which a gateway without keys may be used, "
        "comma-separated; addresses and names without a dot always may.",
    )
    max_upload_bytes: int = Field(default=16 << 30, ge=1, description="Largest uploaded file.")
    max_event_streams: int = Field(
        default=256, ge=1, description="Event streams served at once; more get 503."
    )
    allowed_endpoints: Annotated[list[Origin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Origins of remote models that evaluations may call, comma-separated.",
    )
    reconcile_seconds: float = Field(
        default=3.0, ge=0.1, le=300.0, description="How often the dispatcher repairs."
    )
