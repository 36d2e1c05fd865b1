"""Trajectories in files: JSONL while they are made, Parquet when all of them are there.

``trajectories.jsonl`` is an `AppendLog`, readable while it is written:

- one `Trajectory` with its ``schema_version`` per line, in the order in which rollouts ended;
- lines are only ever appended, so that a span stays valid; only a new attempt of a job may
  truncate the file to an earlier end of a line.
"""

from services.rollouts.records.parquet import read_parquet, write_parquet

__all__ = [
    "read_parquet",
    "write_parquet",
]
