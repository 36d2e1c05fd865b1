"""A stand-in for NVML: the one part of a host's devices that a machine without GPUs lacks."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml
import pytest

GIB = 1 << 30


@dataclass
class FakeNvml:
    """Cards by UUID, each with (used, total) bytes; counts how often it is open. ``percent`` is the
    utilization of those that tell it."""

    cards: dict[str, tuple[int, int]]
    open: int = 0
    missing: bool = False
    percent: dict[str, int] = field(default_factory=dict)
    handles: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handles = list(self.cards)
        functions = {
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: self.handles[index],
            "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
            "nvmlDeviceGetUUID": lambda handle: handle,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetUtilizationRates": self._utilization,
        }
        for name, function in functions.items():
            monkeypatch.setattr(pynvml, name, function)

    def _init(self) -> None:
        if self.missing:
            raise pynvml.NVMLError_LibraryNotFound
        self.open += 1

    def _shutdown(self) -> None:
        self.open -= 1

    def _memory(self, handle: str) -> SimpleNamespace:
        used, total = self.cards[handle]
        return SimpleNamespace(used=used, total=total)

    def _utilization(self, handle: str) -> SimpleNamespace:
        if handle not in self.percent:
            raise pynvml.NVMLError_NotSupported
        return SimpleNamespace(gpu=self.percent[handle])
