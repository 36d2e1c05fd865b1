"""Which trajectories of a job to list; light, as processes hold it that list none."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.contracts.rollouts.trajectories import FinishReason

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class TrajectoryFilter:
    """Which trajectories to list; None means any. Bounds are inclusive."""

    min_reward: float | None = None
    max_reward: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    has_errors: bool | None = None
    finish_reason: FinishReason | None = None
    prompt_index: int | None = None
    mask: "npt.NDArray[np.bool_] | None" = None
    """A selection of a listing's trajectories, by position."""
