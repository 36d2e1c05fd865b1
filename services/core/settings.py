"""Settings that processes share, read from TEMPER_* environment variables."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().resolve())]
"""A folder as an absolute path; ``~`` is the user's home."""


class ProcessSettings(BaseSettings):
    """Settings of every process."""

    model_config = SettingsConfigDict(
        env_prefix="TEMPER_",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        validate_default=True,
    )

    home: Folder = Field(default=Path(".temper"), description="Root of everything Temper writes.")
    runtimes: Folder | None = Field(
        default=None, description="Where the runtimes are installed; null: home/runtimes."
    )
    log_level: str = Field(
        default="INFO",
        pattern="^(DEBUG|INFO|WARNING|ERROR)$",
        description="DEBUG, INFO, WARNING or ERROR.",
    )
    log_json: bool = Field(default=False, description="Log one JSON object per line.")

    @property
    def runtimes_folder(self) -> Path:
        """The folder of the runtimes' environments."""
        return self.runtimes or self.home / "runtimes"


SHARED = ("runtimes", "sandbox")
"""Folders of the home that sandboxed programs, which run as other users, may read."""


def make_private(home: Path) -> None:
    """Create the folder of everything that Temper writes; only its owner may read what is in it.

    Where it has `SHARED` folders, others may pass through it to them, but not list it.
    """
    os.umask(0o077)  # uploads, datasets, adapters, logs and the database
    home.mkdir(parents=True, exist_ok=True)
    if home.stat().st_uid != os.geteuid():
        return
    home.chmod(0o711 if any((home / name).exists() for name in SHARED) else 0o700)
    for entry in home.iterdir():
        if entry.name not in SHARED and entry.lstat().st_uid == os.geteuid():
            entry.chmod(entry.stat().st_mode & 0o700)


CommaSeparated = Annotated[list[str], NoDecode]
"""A list setting written as ``a,b,c``."""


def split_commas(value: object) -> object:
    """Split the text of a `CommaSeparated` setting."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


class Settings(ProcessSettings):
    """Where state is stored, and how the processes that work on jobs find each other.

    By default everything is stored under ``./.temper``: a SQLite database, a file-based broker,
    the artifacts and the runtimes.
    """

    database_url: str = Field(default="", description="SQLAlchemy URL; empty: SQLite in home.")
    broker_url: str = Field(default="", description="Celery broker; empty: files in home.")
    model_root: Folder | None = Field(
        default=None, description="Folders below it may be registered as models; null: home/models."
    )
    trusted_models: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Models whose own code may run, comma-separated: folders below the model root, "
        "and hub:owner/name or hub:owner/name@revision.",
    )
    dataset_scripts: Folder | None = Field(
        default=None,
        description="Folder of dataset scripts, which run as the workers' user without a network; "
        "null: none.",
    )
    lease_seconds: float = Field(
        default=60.0,
        ge=1.0,
        le=3600.0,
        description="A worker silent for longer loses its jobs.",
    )
    grace_seconds: float = Field(
        default=15.0,
        ge=0.1,
        le=600.0,
        description="From SIGTERM to SIGKILL of a process; a worker that stops gives its trainings "
        "as long to save before.",
    )

    @property
    def database(self) -> str:
        """The database's URL, with the default filled in."""
        return self.database_url or f"sqlite:///{self.home / 'temper.db'}"

    @property
    def models_folder(self) -> Path:
        """The folder below which models may be registered."""
        return self.model_root or self.home / "models"
