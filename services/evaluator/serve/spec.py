"""The specification file of a serving's child: ``spec.json``."""

from pydantic import BaseModel, ConfigDict, Field

from services.evaluator.serving import LocalModel
from services.inference.vllm.launch import AdapterSlots, Routes

SPEC = "spec.json"


class ServeSpec(BaseModel):
    """One claim of a serving. ``answered`` is the number of requests in earlier attempts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    model: LocalModel
    name: str = Field(min_length=1, description="What requests call the loaded weights.")
    epoch: int
    host: str = Field(description="The address that the relay listens on.")
    idle_seconds: float = Field(gt=0)
    adapter_rank: int = Field(ge=0, description="Of the largest adapter; 0: none can be loaded.")
    adapters: int = Field(ge=1, description="How many may be loaded at once.")
    answered: int = Field(default=0, ge=0)

    @property
    def slots(self) -> AdapterSlots | None:
        """Room for adapters."""
        return AdapterSlots(self.adapter_rank, self.adapters) if self.adapter_rank else None

    @property
    def routes(self) -> Routes:
        """What the engine offers beside generation."""
        return Routes(adapters=self.slots, guarded=True, tools=True)
