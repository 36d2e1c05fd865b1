"""Settings of a worker process."""

from pydantic import Field

from services.common.contracts.origins import Origin
from services.common.settings import Settings


class WorkerSettings(Settings):
    """What one worker process offers and how it runs its children."""

    host_name: str = Field(default="", description="Name of this host in leases; empty: its own.")
    cpu_slots: int = Field(
        default=1, ge=0, le=256, description="Jobs without a GPU that run at once on this host."
    )
    validation_slots: int = Field(
        default=2, ge=1, le=64, description="Files that one worker validates at once."
    )
    endpoint_keys: dict[Origin, str] = Field(
        default_factory=dict,
        repr=False,
        description="JSON object: API key by origin of a remote model.",
    )
