"""Settings of the sandbox process."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from services.contracts.sandbox import MAX_BODY_BYTES
from services.core.settings import Folder, split_commas
from services.core.web.auth import AccessSettings
from services.sandbox.isolation.tier import Tier
from services.sandbox.network.destinations import parse_entry

LEAST_MEMORY_MB = 16


def _destination(text: str) -> str:
    parse_entry(text)
    return text


class SandboxSettings(AccessSettings):
    """What programs may use, and how many run at once."""

    sandbox_concurrency: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Programs that run at once; null: twice the cores, at least 4.",
    )
    sandbox_queue_seconds: float = Field(
        default=60.0, ge=0.1, le=3600.0, description="Longest wait of a request for its turn."
    )
    sandbox_max_run_seconds: float = Field(
        default=300.0, ge=60.0, le=86400.0, description="Longest time limit that a request may set."
    )
    sandbox_memory_mb: int = Field(
        default=1024,
        ge=LEAST_MEMORY_MB,
        description="Memory of a program whose request sets no limit.",
    )
    sandbox_max_memory_mb: int = Field(
        default=4096, ge=LEAST_MEMORY_MB, description="Largest memory limit that a request may set."
    )
    sandbox_disk_mb: int = Field(
        default=512, ge=1, description="Room for a program's files; they count as memory, too."
    )
    sandbox_processes: int = Field(
        default=256, ge=8, le=32768, description="Processes and threads of one program."
    )
    sandbox_cores: float = Field(
        default=2.0, ge=0.1, le=1024.0, description="Cores whose time one program may take."
    )
    sandbox_idle_seconds: float = Field(
        default=60.0,
        ge=1.0,
        description="Warm sandboxes that no program wanted for longer are given up.",
    )
    sandbox_gpu: bool = Field(
        default=False, description="Show this machine's NVIDIA GPUs to programs."
    )
    sandbox_output_bytes: int = Field(
        default=8 << 20, ge=1024, description="Kept of each output stream; the rest is dropped."
    )
    sandbox_max_body_bytes: int = Field(
        default=MAX_BODY_BYTES, ge=1 << 16, description="Largest request to run code."
    )
    sandbox_held_bytes: int = Field(
        default=1 << 30,
        ge=1 << 20,
        description="Requests and answers held at once, together; what comes on top gets 504.",
    )
    sandbox_compile_cache_mb: int = Field(
        default=256, ge=0, description="Compiled programs kept, so that the same is compiled once."
    )
    sandbox_prepared: Folder | None = Field(
        default=None,
        description="Folder of what compilers read ready-made; null: home/sandbox/prepared.",
    )
    sandbox_max_sessions: int = Field(
        default=32, ge=0, le=4096, description="Stateful sessions that may be open at once."
    )
    sandbox_session_idle_seconds: float = Field(
        default=600.0, ge=1.0, description="A session unused for longer is ended."
    )
    sandbox_session_max_seconds: float = Field(
        default=86400.0, ge=1.0, description="Longest life of a session."
    )
    sandbox_tier: Tier | None = Field(
        default=None, description="Isolation: full or container; null: the strongest there is."
    )
    sandbox_minimum_tier: Tier = Field(
        default=Tier.CONTAINER, description="Weakest isolation to start with: full or container."
    )
    sandbox_network_allow: Annotated[
        list[Annotated[str, AfterValidator(_destination)]],
        NoDecode,
        BeforeValidator(split_commas),
    ] = Field(default=[], description="HOST:PORT that programs may connect to, comma-separated.")

    @model_validator(mode="after")
    def _defaults_within_limits(self) -> "SandboxSettings":
        if self.sandbox_memory_mb > self.sandbox_max_memory_mb:
            raise ValueError("TEMPER_SANDBOX_MEMORY_MB is above TEMPER_SANDBOX_MAX_MEMORY_MB")
        return self

    @property
    def concurrency(self) -> int:
        """How many programs run at once."""
        return self.sandbox_concurrency or max(4, 2 * (os.cpu_count() or 1))

    @property
    def prepared_folder(self) -> Path:
        """The folder of what compilers read ready-made."""
        return self.sandbox_prepared or self.home / "sandbox" / "prepared"
