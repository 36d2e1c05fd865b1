"""Sends a model's weights from this process's GPU to engines on the same host.

An engine of the same GPU opens a buffer of it (CUDA IPC); the others join a group of NCCL, in which
this process has rank 0. Both receive packed tensors as vLLM 0.32 packs them.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.cuda import nccl
from torch.multiprocessing.reductions import reduce_tensor

from services.contracts.base import JsonObject
from services.inference.weights.cuda_handles import describe_buffer

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
