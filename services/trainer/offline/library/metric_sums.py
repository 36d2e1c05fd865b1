"""Sums of metrics between two logs of a trainer."""

from collections import defaultdict
from typing import Any

import torch


class MetricSums:
    """Sums of metrics since the last log, over the micro-batches of all processes."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(names, 0.0))

    def add(self, split: str, **values: float) -> None:
        for name, value in values.items():
            self._sums[split][name] += value

    def take(self, split: str, accelerator: Any) -> dict[str, float]:
        """The sums of a split over all processes; collective."""
        sums = self._sums.pop(split, dict.fromkeys(self._names, 0.0))
        local = torch.tensor([sums[name] for name in self._names], dtype=torch.float64)
        device = accelerator.device
        if device.type not in {"cpu", "cuda"}:
            local = local.float()
        total = accelerator.reduce(local.to(device), "sum").tolist()
        return dict(zip(self._names, total, strict=True))
