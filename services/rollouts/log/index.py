"""The index beside a file of trajectories: an entry of fixed size for each."""

import math
import os
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.contracts.rollouts.trajectories import Trajectory
from services.datasets.append_log import LineSpan

TRAJECTORIES = "trajectories.jsonl"
INDEX = "trajectories.index"

ENTRY = np.dtype(
    [
        ("offset", "<u8"),  # of its line in the file of trajectories
        ("length", "<u4"),  # of its line, including the newline
        ("errors", "<u4"),
        ("key", "<u8"),  # of its id
        ("prompt", "<i8"),
        ("sample", "<i8"),
        ("reward", "<f8"),  # NaN without one
        ("tokens", "<u4"),  # of the response
        ("calls", "<u4"),
        ("finish", "S24"),
    ]
)
"""The layout on disk; entries have a fixed size."""

Entries = npt.NDArray[np.void]


def entry_of(trajectory: Trajectory, place: LineSpan) -> bytes:
    """The entry of a trajectory whose line is at ``place``."""
    fields = (
        place.offset,
        place.length,
        errors_of(trajectory),
        key_of(trajectory.id),
        trajectory.prompt_index,
        trajectory.sample_index,
        math.nan if trajectory.reward is None else trajectory.reward,
        trajectory.response_tokens,
        trajectory.tool_calls,
        trajectory.finish_reason.value.encode(),
    )
    return np.array(fields, ENTRY).tobytes()


def errors_of(trajectory: Trajectory) -> int:
    """Failed calls, malformed calls, a failed reward, and the rollout's own failure."""
    return (
        trajectory.failed_calls
        + sum(len(turn.malformed) for turn in trajectory.turns)
        + (trajectory.reward_error is not None)
        + trajectory.finish_reason.is_failure
    )


def key_of(trajectory_id: str) -> int:
    """A 64-bit hash of an id; collisions are rare, and readers compare the id."""
    return int.from_bytes(blake2b(trajectory_id.encode(), digest_size=8).digest(), "little")


def read_entries(path: Path) -> Entries:
    """The complete entries of an index file; empty if it does not exist."""
    try:
        with open(path, "rb") as file:
            return np.fromfile(file, ENTRY, os.fstat(file.fileno()).st_size // ENTRY.itemsize)
    except FileNotFoundError:
        return np.empty(0, ENTRY)
