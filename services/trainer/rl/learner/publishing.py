"""Publishing full weights for engines: over the files of an outdated version, with what changed.

Files are mapped into memory, so that a weight is compared with the version before, and written, in
place. The pages of an outdated version are used again: new ones would have to be cleared first.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from services.trainer.rl.learner.state import atomic_folder

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by their size in bytes: weights are compared bit by bit, so that NaN equals itself, and
zero differs from its negative."""
_LENGTH_BYTES = 8
MAPPED = 2
"""Versions that stay mapped: the newest, and the one that the next is written over."""


class Publisher:
    """Writes versions of a model's weights, and keeps the last two mapped."""

    def __init__(self) -> None:
        self._mapped: dict[Path, dict[str, Tensor]] = {}
        self._newest: Path | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the newest version is stored with the names, shapes and dtypes of its weights."""
        return self._newest in self._mapped

    def publish(
        self,
        weights: Mapping[str, Tensor],
        folder: Path,
        outdated: Path | None,
        write: Callable[[Path], None],
    ) -> list[str] | None:
        """Publish ``weights``, as they are stored, in a new ``folder``.

        They are written over those of ``outdated``, a folder published before, if it has the same
        tensors; else ``write`` fills the folder. Returns the names of the tensors that differ from
        those published before, None if there are no such. Raises FileExistsError if ``folder``
        exists.
        """
        before = None if self._newest is None else self._mapped.get(self._newest)
        target = None if outdated is None else self._mapped.pop(outdated, None)
        changed = None if before is None else _differing(weights, before)
        if outdated is not None and (target is None or changed is None):
            shutil.rmtree(outdated)
            target = None
        if outdated is None or target is None:
            with atomic_folder(folder, durable=False) as partial:
                write(partial)
            target = mapped_weights(folder)
        else:
            with atomic_folder(folder, durable=False, over=outdated):
                for name in _differing(weights, target):
                    target[name].copy_(weights[name])
        self._newest = folder
        if _is_alike(weights, target):
            self._mapped[folder] = target
        self._mapped = dict(list(self._mapped.items())[-MAPPED:])
        return changed


def mapped_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder's safetensors files, by name; writing to one changes its file."""
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= _mapped_file(path)
    return found


def _mapped_file(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    content = torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)
    data = content[_LENGTH_BYTES + length :]
    return {
        name: data[slice(*entry["data_offsets"])].view(_DTYPES[entry["dtype"]]).view(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] in _DTYPES
    }


def _is_alike(weights: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> bool:
    """Whether both have the same tensors, but for their values."""
    if weights.keys() != stored.keys():  # a library may store a model in another form
        return False
    return all(
        (each.shape, each.dtype) == (stored[name].shape, stored[name].dtype)
        for name, each in weights.items()
    )


def _differing(weights: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> list[str]:
    return [name for name, each in weights.items() if not _is_same(each, stored[name])]


def _is_same(one: Tensor, other: Tensor) -> bool:
    word = _WORDS[one.element_size()]
    same: bool = torch.equal(one.reshape(-1).view(word), other.reshape(-1).view(word))
    return same
