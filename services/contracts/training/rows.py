"""The rows of training files: kinds and formats, and scripts of the operator that generate them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Self

from services.contracts.errors import InvalidRequest


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


HUB_DATASET_PREFIX = "hf://datasets/"
"""Prefix of a ``training_file`` that names a dataset on a hub instead of an uploaded file."""
SCRIPT_PREFIX = "script:"
"""Prefix of a training or validation file that a dataset script generates."""
DEFAULT_SPLIT = "train"
_SPLIT = re.compile(r"\w[\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class ScriptReference:
    """A Python file below the operator's folder of scripts, and the split to generate."""

    path: str
    split: str = DEFAULT_SPLIT

    @classmethod
    def parse(cls, reference: str, param: str) -> Self:
        """Read a reference. A folder stands for the file of the same name in it.

        Raises `InvalidRequest` naming the request field.
        """
        name, separator, split = reference.removeprefix(SCRIPT_PREFIX).partition("#")
        path = PurePosixPath(name)
        if not path.name or path.is_absolute() or ".." in path.parts or "\0" in name:
            message = f"{reference[:100]!r} is not {SCRIPT_PREFIX}FILE below the folder of scripts"
            raise InvalidRequest(message, param=param)
        if separator and _SPLIT.fullmatch(split) is None:
            raise InvalidRequest(f"{split[:100]!r} is not the name of a split", param=param)
        if path.suffix != ".py":
            path = path / f"{path.name}.py"
        return cls(str(path), split or DEFAULT_SPLIT)

    def __str__(self) -> str:
        return f"{SCRIPT_PREFIX}{self.path}#{self.split}"
