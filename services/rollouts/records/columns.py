"""A trajectory as a row of columns with types."""

import json
from typing import Any

import pyarrow as pa

from services.contracts.base import JsonObject
from services.contracts.trajectories import Trajectory

_CALL = pa.struct(
    [
        ("name", pa.string()),
        ("arguments", pa.string()),
        ("outcome", pa.string()),
        ("reply", pa.string()),
        ("reply_characters", pa.int64()),
        ("shown", pa.string()),
        ("error", pa.string()),
        ("attempts", pa.int32()),
        ("started", pa.float64()),
        ("seconds", pa.float64()),
    ]
)
_TURN = pa.struct(
    [
        ("text", pa.string()),
        ("token_start", pa.int64()),
        ("token_count", pa.int64()),
        ("inserted_count", pa.int64()),
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
        ("reward", pa.float64()),
        ("reward_components", pa.map_(pa.string(), pa.float64())),
        ("reward_error", pa.string()),
        ("created_at", pa.float64()),
        ("seconds", pa.float64()),
        ("model_seconds", pa.float64()),
        ("tool_seconds", pa.float64()),
    ]
)
"""Columns of ``trajectories.parquet``: the fields of `Trajectory`. Values whose shape belongs to
others (messages, tools, extra, and the arguments of calls) are JSON texts."""

_JSON_COLUMNS = ("messages", "tools", "extra")


def row_of(trajectory: Trajectory) -> JsonObject:
    """The values of the columns."""
    row = trajectory.model_dump(exclude={"object"})
    for name in _JSON_COLUMNS:
        row[name] = _text(row[name])
    for call in _calls(row):
        if call["arguments"] is not None:
            call["arguments"] = _text(call["arguments"])
    row["reward_components"] = list(row["reward_components"].items())
    return row


def trajectory_of(row: JsonObject) -> Trajectory:
    """What `row_of` made a row of; raises ValueError for any other row."""
    row = dict(row)
    for name in _JSON_COLUMNS:
        row[name] = json.loads(row[name])
    for call in _calls(row):
        if call["arguments"] is not None:
            call["arguments"] = json.loads(call["arguments"])
    row["reward_components"] = dict(row["reward_components"])
    return Trajectory.model_validate(row)


def _calls(row: JsonObject) -> list[JsonObject]:
    return [call for turn in row["turns"] for call in turn["calls"]]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
