"""Settings of the command line, from TEMPER_* environment variables."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from services.contracts.validation import first_fault
from temper.client.errors import ClientError


class InvalidSetting(ClientError):
    """A TEMPER_* variable has an invalid value."""

    code = "configuration_error"


class ClientSettings(BaseModel):
    """The gateway's URL and key, and the home folder of a local stack."""

    # Not of pydantic-settings, which takes longer to import than the whole command.
    model_config = ConfigDict(frozen=True)

    home: Path = Field(
        default=Path(".temper"),
        validate_default=True,
        description="Root of everything Temper writes.",
    )
    api_url: str = Field(
        default="",
        description="URL of the gateway; empty: the local stack's, else http://127.0.0.1:8080.",
    )
    api_key: SecretStr | None = Field(default=None, description="API key for the gateway.")
    api_key_hashes: str = Field(
        default="", repr=False, description="SHA-256 of the keys that a local stack accepts."
    )
    sandbox_url: str = Field(
        default="", description="URL of an external sandbox; empty: temper up starts one."
    )
    retrieval_url: str = Field(
        default="",
        description="URL of an external retrieval service; empty: temper up starts one.",
    )
    campaign_store: str = Field(
        default="",
        description="Folder or URL of a store that temper campaign batch and sync send logs to.",
    )
    campaign_store_token_file: Path | None = Field(
        default=None, description="File with a SAS token of Azure Blob for that store."
    )
    grace_seconds: float = Field(
        default=15.0, ge=0.1, le=600.0, description="Seconds from SIGTERM to SIGKILL."
    )

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()

    @property
    def logs(self) -> Path:
        """Folder of the local stack's log files."""
        return self.home / "logs"


def load_settings() -> ClientSettings:
    """Read the settings; raise `InvalidSetting` with the variable's name."""
    names = ClientSettings.model_fields
    variables = {name: os.environ.get(f"TEMPER_{name.upper()}") for name in names}
    given = {name: value for name, value in variables.items() if value}
    try:
        return ClientSettings.model_validate(given)
    except ValidationError as error:
        fault = first_fault(error)
        name = "_".join(map(str, fault.location)).upper()
        raise InvalidSetting(f"TEMPER_{name}: {fault.message}") from error
