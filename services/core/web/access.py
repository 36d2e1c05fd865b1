"""Settings that say who may use a service."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode, SettingsConfigDict

from services.core.settings import CommaSeparated, ProcessSettings, split_commas


def _key_hash(text: str) -> str:
    if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
        raise ValueError("not the SHA-256 of a key; `temper keys new` prints one")
    return text.lower()


KeyHash = Annotated[str, AfterValidator(_key_hash)]


class AccessSettings(ProcessSettings):
    """Who may ask."""

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
        description="Host names with a dot under which a service without keys may be used, "
        "comma-separated; addresses and names without a dot always may.",
    )

    @property
    def keyless_hosts(self) -> list[str] | None:
        """The names under which it may be used without a key; None when keys are asked for."""
        return None if self.api_key_hashes else self.allowed_hosts
