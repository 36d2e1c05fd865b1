"""The memory of tensors on a CPU, where no allocator counts it."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Counts the bytes of all tensors that are alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[int] = set()
        self._bytes = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        return result

    def add(self, tensor: torch.Tensor) -> None:
        """Count a tensor that was made before."""
        storage = tensor.untyped_storage()
        name, size = storage._cdata, storage.nbytes()
        if name not in self._known:
            self._known.add(name)
            self._bytes += size
            self.peak = max(self.peak, self._bytes)
            weakref.finalize(storage, self._freed, name, size)

    def _freed(self, name: int, size: int) -> None:
        self._known.discard(name)
        self._bytes -= size
