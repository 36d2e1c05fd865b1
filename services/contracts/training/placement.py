"""How online training shares its GPUs."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from services.contracts.base import Number, Request

Gpus = Annotated[StrictInt, Field(ge=1, le=65_536)]


class PlacementMode(StrEnum):
    """How engine and trainer share the devices."""

    AUTO = "auto"  # split with two or more GPUs
    COLOCATED = "colocated"  # on the same devices
    SPLIT = "split"  # on separate devices


class OnlinePlacement(Request):
    """How the leased GPUs are shared between sampling and training."""

    mode: PlacementMode = Field(
        default=PlacementMode.AUTO, description="Sharing of the GPUs between engine and trainer."
    )
    trainer_gpus: Gpus | None = Field(
        default=None,
        description="Number of GPUs of the trainer with `split`; null: half, rounded down.",
    )
    gpus_per_engine: Gpus = Field(
        default=1,
        description="GPUs per engine (tensor parallelism); remaining GPUs form more engines.",
    )
    engine_memory: Annotated[Number, Field(gt=0.0, lt=1.0)] = Field(
        default=0.45, description="Fraction of each GPU's memory that a colocated engine takes."
    )
    sleep: StrictBool = Field(
        default=False, description="A colocated engine releases its memory during updates."
    )

    def splits(self, gpus: int) -> bool:
        """Whether engine and trainer have separate GPUs, of ``gpus``."""
        if self.mode is PlacementMode.AUTO:
            return gpus > 1
        return self.mode is PlacementMode.SPLIT

    def learner_gpus(self, gpus: int) -> int:
        """The GPUs of the learner, of ``gpus``."""
        return (self.trainer_gpus or gpus // 2) if self.splits(gpus) else gpus
