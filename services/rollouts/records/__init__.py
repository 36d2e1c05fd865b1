"""Trajectories in files: JSONL while they are made, Parquet when all of them are there.

``trajectories.jsonl``, for whoever reads it, also while it is written:

- one JSON object a line, UTF-8, each line ended by a newline: a `Trajectory`, with its
  ``schema_version``; what follows the last newline is still being written, or was torn by a kill,
  and does not count;
- lines stand in the order in which rollouts ended, and are only ever appended, so that a place
  stays valid; only a new attempt of a job may cut the file back to an earlier end of a line.
"""

from services.rollouts.records.log import Place, TrajectoryLog, read_at, read_trajectories
from services.rollouts.records.parquet import read_parquet, write_parquet

__all__ = [
    "Place",
    "TrajectoryLog",
    "read_at",
    "read_parquet",
    "read_trajectories",
    "write_parquet",
]
