"""What every source of samples promises."""

import hashlib
from typing import Protocol

from services.contracts.trajectories import Trajectory
from services.trainer.rl.draws import Draw


class Source(Protocol):
    """Answers prompts; safe to ask from many tasks at once."""

    async def sample(self, draw: Draw, index: int) -> Trajectory:
        """Answer a prompt, as its sample ``index``.

        A sample that failed says so in its record: nothing is raised but ``CancelledError``.
        """
        ...


def sample_id(draw: Draw, index: int) -> str:
    """The id of a sample's trajectory; no two samples of a job have the same."""
    return f"traj-{draw.number}-{index}"


def draw_seed(seed: int, draw: Draw) -> int:
    """A seed of 31 bits for the samples of a draw: other ones in each pass over the prompts."""
    digest = hashlib.sha256(f"{seed}:{draw.number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
