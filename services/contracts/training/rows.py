"""The kinds and formats of rows in training files."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class RowKind(StrEnum):
    """What a method learns from a row."""

    DEMONSTRATION = "demonstration"  # a conversation; its answers are imitated
    PREFERENCE = "preference"  # a prompt with a preferred and a rejected answer
    FEEDBACK = "feedback"  # a prompt with one answer, judged desirable or not
    TEXT = "text"  # plain text


class DataFormat(StrEnum):
    """The format of a row of a training file."""

    AUTO = "auto"
    CHAT = "chat"
    ALPACA = "alpaca"
    SHAREGPT = "sharegpt"
    TEXT = "text"  # of pre-training alone


LABEL_COLUMNS = ("label", "kto_tag")
"""Columns whose boolean says whether the answer of a row is desirable."""

_SUPERVISED = "supervised training has no use for preferences"
_PREFERENCE = "this method has no use for preferences"
_LABEL = "this method has no use for labels"
_MEDIA = "only text can be trained on"
_MEDIA_COLUMNS = dict.fromkeys(("images", "image", "videos", "audios"), _MEDIA)
_PREFERENCE_COLUMNS = dict.fromkeys(
    ("chosen", "rejected", "preferred_output", "non_preferred_output"), _PREFERENCE
)
_UNUSABLE_COLUMNS: dict[RowKind, dict[str, str]] = {
    RowKind.DEMONSTRATION: {
        **_MEDIA_COLUMNS,
        **dict.fromkeys((*_PREFERENCE_COLUMNS, "kto_tag"), _SUPERVISED),
    },
    RowKind.PREFERENCE: {**_MEDIA_COLUMNS, "kto_tag": _LABEL},
    RowKind.FEEDBACK: {**_MEDIA_COLUMNS, **_PREFERENCE_COLUMNS},
    RowKind.TEXT: {**_MEDIA_COLUMNS, **_PREFERENCE_COLUMNS, "kto_tag": _LABEL},
}


def unusable_column(row: Mapping[str, Any], kind: RowKind = RowKind.DEMONSTRATION) -> str | None:
    """A column of a training row whose meaning training would lose, and why; None if there is
    none."""
    unusable = _UNUSABLE_COLUMNS[kind]
    for name in unusable.keys() & row.keys():
        if row[name] not in (None, "", []):
            return f"{name}: {unusable[name]}"
    if kind is RowKind.DEMONSTRATION and row.get("label") is False:
        return "label is false: an answer not to learn"
    return None
