"""Settings of a worker process."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from services.contracts.origins import GATEWAY_ORIGINS, Origin
from services.core.settings import Settings, split_commas
from services.core.tool_settings import ToolSettings


class WorkerSettings(Settings, ToolSettings):
    """What one worker process offers, how it runs its children, and what tools it finds."""

    host_name: str = Field(default="", description="Name of this host in leases; empty: its own.")
    cpu_slots: int = Field(
        default=1, ge=0, le=256, description="Jobs without a GPU that run at once on this host."
    )
    validation_slots: int = Field(
        default=2, ge=1, le=64, description="Files that one worker validates at once."
    )
    gateway_origins: Annotated[list[Origin], NoDecode, BeforeValidator(split_commas)] = Field(
        default=list(GATEWAY_ORIGINS),
        description="Addresses of the gateway as tool files write it: its /run_code is the "
        "sandbox and its /retrieve the retrieval service, comma-separated.",
    )
