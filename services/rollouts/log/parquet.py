"""The trajectories of a job as one Parquet file, for data frames and trainers."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from services.contracts.base import JsonObject
from services.contracts.rollouts.trajectories import Trajectory

_CALL = pa.struct(
    [
        ("name", pa.string()),
        ("arguments", pa.string()),
        ("outcome", pa.string()),
        ("reply", pa.string()),
        ("reply_characters", pa.int64()),
        ("shown", pa.string()),
        ("error", pa.string()),
        ("cause", pa.string()),
        ("failures", pa.int32()),
        ("attempts", pa.int32()),
        ("started", pa.float64()),
        ("seconds", pa.float64()),
        ("run", pa.string()),
    ]
)
_TURN = pa.struct(
    [
        ("text", pa.string()),
        ("token_start", pa.int64()),
        ("token_count", pa.int64()),
        ("inserted_count", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("finish_reason", pa.string()),
        ("calls", pa.list_(_CALL)),
        ("malformed", pa.list_(pa.struct([("text", pa.string()), ("reason", pa.string())]))),
        ("started", pa.float64()),
        ("seconds", pa.float64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("schema_version", pa.int32()),
        ("id", pa.string()),
        ("prompt_index", pa.int64()),
        ("sample_index", pa.int64()),
        ("messages", pa.string()),
        ("tools", pa.string()),
        ("gold", pa.list_(pa.string())),
        ("extra", pa.string()),
        ("prompt_token_ids", pa.list_(pa.int32())),
        ("response_token_ids", pa.list_(pa.int32())),
        ("response_mask", pa.list_(pa.int8())),
        ("log_probs", pa.list_(pa.float64())),
        ("policy_versions", pa.list_(pa.int32())),
        ("turns", pa.list_(_TURN)),
        ("finish_reason", pa.string()),
        ("error", pa.string()),
        ("status_code", pa.int32()),
        ("reward", pa.float64()),
        ("reward_components", pa.map_(pa.string(), pa.float64())),
        ("reward_error", pa.string()),
        ("left_out", pa.string()),
        ("infrastructure_failures", pa.map_(pa.string(), pa.int32())),
        ("plays", pa.int32()),
        ("agent", pa.string()),
        ("environments", pa.string()),
        ("created_at", pa.float64()),
        ("seconds", pa.float64()),
        ("model_seconds", pa.float64()),
        ("tool_seconds", pa.float64()),
    ]
)
"""Columns of ``trajectories.parquet``: the fields of `Trajectory`. Free-form values (messages,
tools, extra, the agent's session, environments, arguments and runs of calls) are JSON strings."""

_JSON_COLUMNS = ("messages", "tools", "extra", "left_out", "agent", "environments")
_MAP_COLUMNS = ("reward_components", "infrastructure_failures")
_JSON_OF_CALLS = ("arguments", "run")
_GROUP_ROWS = 512
_GROUP_TOKENS = 2_000_000


def write_parquet(trajectories: Iterable[Trajectory], path: Path) -> None:
    """Write ``trajectories`` in order, atomically; at most one row group is in memory."""
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


def _groups(trajectories: Iterable[Trajectory]) -> Iterator[list[dict[str, object]]]:
    group: list[dict[str, object]] = []
    tokens = 0
    for trajectory in trajectories:
        group.append(_row(trajectory))
        tokens += len(trajectory.prompt_token_ids) + len(trajectory.response_token_ids)
        if len(group) == _GROUP_ROWS or tokens >= _GROUP_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def _row(trajectory: Trajectory) -> JsonObject:
    """The values of the columns."""
    row = trajectory.model_dump(exclude={"object"})
    for name in _JSON_COLUMNS:
        row[name] = None if row[name] is None else _text(row[name])
    for call in _calls(row):
        for name in _JSON_OF_CALLS:
            if call[name] is not None:
                call[name] = _text(call[name])
    for name in _MAP_COLUMNS:
        row[name] = list(row[name].items())
    return row


def _calls(row: JsonObject) -> list[JsonObject]:
    return [call for turn in row["turns"] for call in turn["calls"]]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
