"""References to dataset scripts of the operator: ``script:FILE`` with an optional ``#SPLIT``."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Self

from services.contracts.errors import InvalidRequest

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
