"""The trajectories of a job as one Parquet file, for data frames and trainers."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from services.contracts.trajectories import Trajectory
from services.datasets.append_log import UnreadableRecord
from services.rollouts.records.columns import SCHEMA, row_of, trajectory_of

_GROUP_ROWS = 512
_GROUP_TOKENS = 2_000_000
_BATCH_ROWS = 64


def write_parquet(trajectories: Iterable[Trajectory], path: Path) -> None:
    """Write a file whose rows are ``trajectories``, in their order; a kill leaves none or a whole
    one. No more than a row group is held in memory."""
    partial = path.with_suffix(".partial")
    with (
        open(partial, "wb") as file,
        pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            use_byte_stream_split=["log_probs.list.element"],
        ) as writer,
    ):
        for group in _groups(trajectories):
            writer.write_table(pa.Table.from_pylist(group, SCHEMA))
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_parquet(path: Path) -> Iterator[Trajectory]:
    """The trajectories of a file; raises `UnreadableRecord` for a file that is not ours
    or is damaged."""
    row = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                for values in batch.to_pylist():
                    yield trajectory_of(values)
                    row += 1
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        cause = " ".join(str(error).split())[:300]
        raise UnreadableRecord(f"{path.name}: row {row} is not a trajectory: {cause}") from error


def _groups(trajectories: Iterable[Trajectory]) -> Iterator[list[dict[str, object]]]:
    group: list[dict[str, object]] = []
    tokens = 0
    for trajectory in trajectories:
        group.append(row_of(trajectory))
        tokens += len(trajectory.prompt_token_ids) + len(trajectory.response_token_ids)
        if len(group) == _GROUP_ROWS or tokens >= _GROUP_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group
