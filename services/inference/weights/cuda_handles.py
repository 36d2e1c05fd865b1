"""A buffer on a GPU that another process opens: what torch needs for that, as JSON.

torch passes it by pickle, which must not be read from a request.
"""

import base64
from typing import Any

import torch

from services.contracts.base import JsonObject

Handle = tuple[Any, ...]
"""The arguments of torch's `rebuild_cuda_tensor`, written for torch 2.13."""

_SIZE, _DEVICE, _STORAGE, _BYTES, _OFFSET = 1, 6, 7, 8, 9
_COUNTER, _COUNTER_OFFSET, _EVENT, _EVENT_SYNC = 11, 12, 13, 14


def describe_buffer(handle: Handle) -> JsonObject:
    """A handle of a one-dimensional buffer of bytes."""
    return {
        "size": handle[_SIZE][0],
        "storage": _text(handle[_STORAGE]),
        "bytes": handle[_BYTES],
        "offset": handle[_OFFSET],
        "counter": _text(handle[_COUNTER]),
        "counter_offset": handle[_COUNTER_OFFSET],
        "event": _text(handle[_EVENT]),
        "event_sync": handle[_EVENT_SYNC],
    }


def buffer_handle(described: JsonObject) -> Handle:
    """The handle that was described; the process that opens it sets the device. Raises KeyError and
    ValueError for another object."""
    return (
        torch.Tensor,
        torch.Size([int(described["size"])]),
        (1,),
        0,
        torch.storage.TypedStorage,
        torch.uint8,
        0,
        base64.b64decode(described["storage"], validate=True),
        int(described["bytes"]),
        int(described["offset"]),
        False,
        base64.b64decode(described["counter"], validate=True),
        int(described["counter_offset"]),
        base64.b64decode(described["event"], validate=True),
        bool(described["event_sync"]),
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
