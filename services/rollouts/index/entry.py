"""One trajectory in an index: where its line is, and what lists are sorted and filtered by."""

import math
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from services.contracts.trajectories import Trajectory
from services.datasets.append_log import Span

ENTRY = np.dtype(
    [
        ("offset", "<u8"),  # of its line in the file of trajectories
        ("length", "<u4"),  # of its line, the newline included
        ("errors", "<u4"),
        ("key", "<u8"),  # of its id
        ("prompt", "<i8"),
        ("sample", "<i8"),
        ("reward", "<f8"),  # NaN where there is none
        ("tokens", "<u4"),  # of the response
        ("calls", "<u4"),
        ("finish", "S24"),
    ]
)
"""The layout on disk. Entries are of one size, so that the n-th is found and a torn one seen."""

Entries = npt.NDArray[np.void]


def entry_of(trajectory: Trajectory, place: Span) -> bytes:
    """The entry of a trajectory whose line is at ``place``."""
    fields = (
        place.offset,
        place.length,
        errors_of(trajectory),
        key_of(trajectory.id),
        trajectory.prompt_index,
        trajectory.sample_index,
        math.nan if trajectory.reward is None else trajectory.reward,
        len(trajectory.response_token_ids),
        trajectory.tool_calls,
        trajectory.finish_reason.value.encode(),
    )
    return np.array(fields, ENTRY).tobytes()


def errors_of(trajectory: Trajectory) -> int:
    """Calls without a reply, unreadable calls, a reward that failed, the rollout's own failure."""
    return (
        trajectory.failed_calls
        + sum(len(turn.malformed) for turn in trajectory.turns)
        + (trajectory.reward_error is not None)
        + trajectory.finish_reason.is_failure
    )


def key_of(trajectory_id: str) -> int:
    """What stands for an id; ids that differ hardly ever share it, so whoever finds one looks."""
    return int.from_bytes(blake2b(trajectory_id.encode(), digest_size=8).digest(), "little")
