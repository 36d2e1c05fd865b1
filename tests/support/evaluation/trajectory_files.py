"""Reading back the trajectories of a Parquet file."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from services.contracts.base import JsonObject
from services.contracts.rollouts.trajectories import Trajectory


def read_parquet(path: Path) -> list[Trajectory]:
    """The trajectories of a file that a job has written."""
    return [_trajectory(row) for row in pq.read_table(path).to_pylist()]


def _trajectory(row: JsonObject) -> Trajectory:
    for name in ("messages", "tools", "extra"):
        row[name] = json.loads(row[name])
    for turn in row["turns"]:
        for call in turn["calls"]:
            for name in ("arguments", "run"):
                if call[name] is not None:
                    call[name] = json.loads(call[name])
    for name in ("reward_components", "infrastructure_failures"):
        row[name] = dict(row[name])
    for name in ("left_out", "agent", "environments"):
        if row[name] is not None:
            row[name] = json.loads(row[name])
    return Trajectory.model_validate(row)
