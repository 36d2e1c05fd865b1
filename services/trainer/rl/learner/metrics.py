"""Figures of an update, collected over micro-batches and processes."""

import torch
from torch import Tensor

from services.trainer.rl.learner.parallel import ProcessGroup


class MetricAccumulator:
    """Sums that stay on the device until the update is over.

    While not ``counting`` nothing changes but that names become known: all processes must know
    the same.
    """

    def __init__(self, device: torch.device) -> None:
        self.counting = True
        self.device = device
        self._sums: dict[str, Tensor] = {}
        self._maxima: dict[str, Tensor] = {}

    def mean(self, name: str, values: Tensor) -> None:
        """Take ``values`` (m,) into the mean over all tokens."""
        total = values.detach().sum(dtype=torch.float64)
        self._add(name, total, torch.full_like(total, values.numel()))

    def part(self, name: str, value: Tensor) -> None:
        """Take a part of a loss: parts are added, and the mean of all optimizer steps is shown."""
        value = value.detach().double()
        self._add(name, value, torch.zeros_like(value))

    def largest(self, name: str, values: Tensor) -> None:
        """Take ``values`` (m,) into the maximum."""
        before = self._maxima.setdefault(
            name, torch.full((), -torch.inf, dtype=torch.float64, device=self.device)
        )
        if self.counting and values.numel():
            self._maxima[name] = torch.maximum(before, values.detach().max().double())

    def collect(self, processes: ProcessGroup, steps: int) -> dict[str, float]:
        """The metrics of all processes, after ``steps`` optimizer steps."""
        metrics: dict[str, float] = {}
        if self._sums:
            sums = processes.sum(torch.stack([self._sums[name] for name in sorted(self._sums)]))
            for name, (total, count) in zip(sorted(self._sums), sums.tolist(), strict=True):
                metrics[name] = total / (count or steps)
        if self._maxima:
            names = sorted(self._maxima)
            maxima = processes.maximum(torch.stack([self._maxima[name] for name in names]))
            metrics |= dict(zip(names, maxima.tolist(), strict=True))
        return metrics

    def _add(self, name: str, total: Tensor, count: Tensor) -> None:
        before = self._sums.setdefault(
            name, torch.zeros(2, dtype=torch.float64, device=self.device)
        )
        if self.counting:
            self._sums[name] = before + torch.stack([total, count])
