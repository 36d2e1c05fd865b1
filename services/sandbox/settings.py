"""Settings of the sandbox process."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from services.contracts.sandbox.programs import MAX_BODY_BYTES
from services.contracts.sandbox.scripts import FolderName
from services.contracts.validation import AtField, given_of
from services.core.settings import Folder, split_commas
from services.core.web.auth import AccessSettings, KeyHash
from services.sandbox.isolation.tier import Tier
from services.sandbox.network.destinations import parse_entry

MIN_MEMORY_MB = 16


def _destination(text: str) -> str:
    parse_entry(text)
    return text


def _one_destination(text: str) -> str:
    if parse_entry(text)[1]:
        raise ValueError(f"{text!r} means more than one destination")
    return text


class SandboxSettings(AccessSettings):
    """Limits of programs, and how many run concurrently."""

    sandbox_concurrency: int = Field(
        default=128,
        ge=1,
        le=400,
        description="Programs that run concurrently, sleeping ones included.",
    )
    sandbox_busy_programs: int | None = Field(
        default=None,
        ge=1,
        le=400,
        description="Programs that compute concurrently; null: twice the cores, at least 4.",
    )
    sandbox_queue_seconds: float = Field(
        default=60.0, ge=0.1, le=3600.0, description="Longest wait of a request for a slot."
    )
    sandbox_max_run_seconds: float = Field(
        default=300.0, ge=60.0, le=86400.0, description="Highest time limit that a request may set."
    )
    sandbox_memory_mb: int = Field(
        default=1024,
        ge=MIN_MEMORY_MB,
        description="Memory limit of a program whose request sets none.",
    )
    sandbox_max_memory_mb: int = Field(
        default=4096, ge=MIN_MEMORY_MB, description="Highest memory limit that a request may set."
    )
    sandbox_disk_mb: int = Field(
        default=512,
        ge=1,
        description="Disk space of a program; in the full tier it counts as memory, too.",
    )
    sandbox_processes: int = Field(
        default=256, ge=8, le=32768, description="Processes and threads of one program."
    )
    sandbox_cores: float = Field(
        default=2.0,
        ge=0.1,
        le=1024.0,
        description="Processor time that one program may use, in cores.",
    )
    sandbox_idle_seconds: float = Field(
        default=60.0,
        ge=1.0,
        description="Idle time after which a warm slot is closed.",
    )
    sandbox_gpu: bool = Field(
        default=False, description="Show this machine's NVIDIA GPUs to programs."
    )
    sandbox_output_bytes: int = Field(
        default=8 << 20,
        ge=1024,
        description="Bytes kept of each output stream; the rest is dropped.",
    )
    sandbox_max_body_bytes: int = Field(
        default=MAX_BODY_BYTES, ge=1 << 16, description="Largest request body."
    )
    sandbox_held_bytes: int = Field(
        default=1 << 30,
        ge=1 << 20,
        description="Bytes of requests and responses in memory; beyond that, 504.",
    )
    sandbox_compile_cache_mb: int = Field(
        default=256, ge=0, description="Size of the cache of compiled programs."
    )
    sandbox_prepared: Folder | None = Field(
        default=None,
        description="Folder of precompiled headers and the like; null: home/sandbox/prepared.",
    )
    sandbox_max_sessions: int = Field(
        default=32, ge=0, le=4096, description="Stateful sessions that may be open concurrently."
    )
    sandbox_session_idle_seconds: float = Field(
        default=600.0, ge=1.0, description="Idle time after which a session ends."
    )
    sandbox_session_max_seconds: float = Field(
        default=86400.0, ge=1.0, description="Longest lifetime of a session."
    )
    sandbox_tier: Tier | None = Field(
        default=None,
        description="Isolation tier: full or container; null: the strongest that works.",
    )
    sandbox_minimum_tier: Tier = Field(
        default=Tier.CONTAINER, description="Weakest acceptable isolation tier: full or container."
    )
    sandbox_network_allow: Annotated[
        list[Annotated[str, AfterValidator(_destination)]],
        NoDecode,
        BeforeValidator(split_commas),
    ] = Field(default=[], description="HOST:PORT that programs may connect to, comma-separated.")
    sandbox_script_key_hashes: Annotated[list[KeyHash], NoDecode, BeforeValidator(split_commas)] = (
        Field(
            default=[],
            repr=False,
            description="SHA-256 of each key for scripts, comma-separated; empty disables scripts.",
        )
    )
    sandbox_scripts: int = Field(
        default=2, ge=0, le=16, description="Scripts that run concurrently, beside programs."
    )
    sandbox_script_hours: float = Field(
        default=8.0, gt=0.0, le=168.0, description="Highest time limit of a script."
    )
    sandbox_script_output_mb: int = Field(
        default=1024,
        ge=1,
        le=1 << 20,
        description="Disk quota of a script; in the full tier it counts as memory, too.",
    )
    sandbox_script_folders: dict[FolderName, Folder] = Field(
        default={},
        description="JSON object: names and paths of the folders that scripts may read.",
    )
    sandbox_script_network: Annotated[str, AfterValidator(_one_destination)] | None = Field(
        default=None,
        description="HOST:PORT, only destination of scripts (campaigns' LLM proxy); null: none.",
    )
    sandbox_script_unattended_seconds: float = Field(
        default=900.0,
        ge=1.0,
        le=86400.0,
        description="Time after which a script that its client does not poll is killed.",
    )

    @model_validator(mode="after")
    def _defaults_within_limits(self) -> "SandboxSettings":
        default, most = self.sandbox_memory_mb, self.sandbox_max_memory_mb
        if default > most:
            field = given_of(self, "sandbox_memory_mb", "sandbox_max_memory_mb")
            message = f"{default} MB, is above TEMPER_SANDBOX_MAX_MEMORY_MB, {most} MB"
            if field == "sandbox_max_memory_mb":
                message = f"{most} MB, is below TEMPER_SANDBOX_MEMORY_MB, {default} MB"
            raise AtField(field, f"the limit, {message}")
        return self

    @property
    def busy_programs(self) -> int:
        """Number of programs admitted unconditionally; more are admitted only with room."""
        busy = self.sandbox_busy_programs or max(4, 2 * (os.cpu_count() or 1))
        return min(busy, self.sandbox_concurrency)

    @property
    def prepared_folder(self) -> Path:
        """The folder of precompiled compiler inputs."""
        return self.sandbox_prepared or self.home / "sandbox" / "prepared"
