"""Publishing weights for engines: in files, or from this process's GPU.

Full weights are written over the files of an outdated version, with what changed. Files are mapped
into memory, so that a weight is compared with the version before, and written, in place. The pages
of an outdated version are used again: new ones would have to be cleared first.

An engine of the same GPU opens a buffer of it (CUDA IPC); the others on the host join a group of
NCCL, in which this process has rank 0. Both receive packed tensors as vLLM 0.32 packs them.
"""

import base64
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.cuda import nccl
from torch.multiprocessing.reductions import reduce_tensor

from services.contracts.base import JsonObject
from services.inference.weights.cuda_handles import describe_buffer
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


CHUNK_BYTES = 256 * 2**20
"""Of a buffer, unless a tensor is larger."""
LARGEST = 2**31 - 1 - CHUNK_BYTES
"""Bytes of a tensor: torch counts the elements of a broadcast in 32 bits."""


class WeightSender:
    """Sends ``weights``, floats as ``dtype``: the same tensors, with their values of the moment."""

    def __init__(self, weights: Sequence[tuple[str, Tensor]], dtype: torch.dtype) -> None:
        # The largest elements first: each tensor then begins at a multiple of its element's size.
        sized = [
            (name, each, dtype if each.is_floating_point() else each.dtype)
            for name, each in weights
        ]
        self._weights = sorted(sized, key=lambda each: -each[2].itemsize)
        self._chunks: Iterator[JsonObject] | None = None
        self._buffer: Tensor | None = None
        self._id = b""
        self._groups: dict[str, Any] = {}

    def next_chunk(self) -> JsonObject | None:
        """The next part of the weights, packed in a buffer that an engine may open until
        `end_chunks`; None after the last."""
        if self._chunks is None:
            self._chunks = self._packed()
        return next(self._chunks, None)

    def end_chunks(self) -> None:
        """Free the buffer, which no engine has open any more; the weights begin again."""
        self._chunks = self._buffer = None
        torch.cuda.ipc_collect()

    def describe(self) -> JsonObject:
        """Names, dtypes and shapes of what `broadcast` sends."""
        return _described(self._weights)

    def make_group(self) -> str:
        """The id of a new group, in base64, for `join_group` and its other members."""
        self._id = nccl.unique_id()
        return base64.b64encode(self._id).decode()

    def join_group(self, engine: str, size: int) -> None:
        """Join the group that was made last, with an engine's ``size`` - 1 GPUs; returns once they
        have joined too."""
        group = nccl.init_rank(size, self._id, 0)
        # vLLM's members begin with a sum of one element.
        nccl.all_reduce([torch.zeros(1, device=self._device)], comms=[group])
        torch.cuda.current_stream().synchronize()
        self._groups[engine] = group

    def broadcast(self, engine: str) -> None:
        """Send all weights to an engine's group."""
        for part in broadcast_parts(self._weights, CHUNK_BYTES):
            packed = torch.empty(sum(map(_size, part)), dtype=torch.uint8, device=self._device)
            _pack(packed, part)
            nccl.broadcast([packed], 0, comms=[self._groups[engine]])
        torch.cuda.current_stream().synchronize()

    @property
    def _device(self) -> torch.device:
        return self._weights[0][1].device

    def _packed(self) -> Iterator[JsonObject]:
        limit = max(CHUNK_BYTES, *map(_size, self._weights))
        self._buffer = buffer = torch.empty(limit, dtype=torch.uint8, device=self._device)
        _, handle = reduce_tensor(buffer)
        for part in fitting_parts(self._weights, limit):
            _pack(buffer, part)
            torch.cuda.current_stream().synchronize()
            yield {
                **_described(part),
                "sizes": [_size(each) for each in part],
                "buffer": describe_buffer(handle),
            }


def can_send(weights: Iterable[Tensor]) -> bool:
    """Whether each tensor is small enough."""
    return all(each.nbytes <= LARGEST for each in weights)


Weight = tuple[str, Tensor, torch.dtype]


def fitting_parts(weights: Sequence[Weight], limit: int) -> Iterator[list[Weight]]:
    """Successive parts of at most ``limit`` bytes."""
    part: list[Weight] = []
    size = 0
    for each in weights:
        if part and size + _size(each) > limit:
            yield part
            part, size = [], 0
        part.append(each)
        size += _size(each)
    if part:
        yield part


def broadcast_parts(weights: Sequence[Weight], limit: int) -> Iterator[list[Weight]]:
    """Successive parts that end with the tensor that exceeds ``limit`` bytes, as vLLM's members
    expect them."""
    part: list[Weight] = []
    size = 0
    for each in weights:
        part.append(each)
        size += _size(each)
        if size > limit:
            yield part
            part, size = [], 0
    if part:
        yield part


def _size(weight: Weight) -> int:
    return int(weight[1].numel()) * int(weight[2].itemsize)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _pack(buffer: Tensor, part: Sequence[Weight]) -> None:
    """Write tensors one behind the other, converted on the way."""
    begin = 0
    for weight in part:
        _, tensor, dtype = weight
        end = begin + _size(weight)
        buffer[begin:end].view(dtype).view(tensor.shape).copy_(tensor)
        begin = end


def _described(part: Sequence[Weight]) -> JsonObject:
    return {
        "names": [name for name, _, _ in part],
        "dtype_names": [str(dtype).removeprefix("torch.") for _, _, dtype in part],
        "shapes": [list(tensor.shape) for _, tensor, _ in part],
    }
