"""Settings of the command line and the Python client, read from TEMPER_* environment variables."""

from pathlib import Path

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from temper.client.errors import ClientError


class SettingRefused(ClientError):
    """A TEMPER_* variable does not hold what it should."""

    code = "configuration_error"


class ClientSettings(BaseSettings):
    """Where the gateway answers, the key to show it, and where a local stack keeps its state."""

    model_config = SettingsConfigDict(
        env_prefix="TEMPER_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    home: Path = Field(
        default=Path(".temper"),
        validate_default=True,
        description="Root of everything Temper writes.",
    )
    api_url: str = Field(
        default="",
        description="Address of the gateway; empty: the local stack's, else http://127.0.0.1:8080.",
    )
    api_key: SecretStr | None = Field(default=None, description="Key shown to the gateway.")
    api_key_hashes: str = Field(
        default="", repr=False, description="What the gateway of a local stack will accept."
    )
    sandbox_url: str = Field(
        default="", description="A sandbox that runs elsewhere; empty: temper up starts one."
    )
    retrieval_url: str = Field(
        default="",
        description="A retrieval service that runs elsewhere; empty: temper up starts one.",
    )
    grace_seconds: float = Field(
        default=15.0, ge=0.1, le=600.0, description="From asking a process to end to killing it."
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
    """Read the settings; raise `SettingRefused` naming the variable at fault."""
    try:
        return ClientSettings()
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        name = "_".join(str(part) for part in fault["loc"]).upper()
        raise SettingRefused(f"TEMPER_{name}: {fault['msg']}") from error
