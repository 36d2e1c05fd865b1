"""Metrics of an update, accumulated over micro-batches and processes."""

import torch
from torch import Tensor

from services.trainer.rl.learner.parallel import ProcessGroup


class MetricAccumulator:
    """Sums that stay on the device until the update ends.

    While not ``counting``, values are ignored but names are registered: all processes must reduce
    the same names.
    """

    def __init__(self, device: torch.device) -> None:
        self.counting = True
        self.device = device
        self._sums: dict[str, Tensor] = {}
        self._maxima: dict[str, Tensor] = {}

    def mean(self, name: str, values: Tensor) -> None:
        """Add ``values`` (m,) to a mean over all tokens."""
        total = values.detach().sum(dtype=torch.float64)
        self._add(name, total, torch.full_like(total, values.numel()))

    def part(self, name: str, value: Tensor) -> None:
        """Add a part of a loss: parts are summed, and averaged over optimizer steps."""
        value = value.detach().double()
        self._add(name, value, torch.zeros_like(value))

    def largest(self, name: str, values: Tensor) -> None:
        """Add ``values`` (m,) to a maximum."""
        before = self._maxima.setdefault(
            name, torch.full((), -torch.inf, dtype=torch.float64, device=self.device)
        )
        if self.counting and values.numel():
            self._maxima[name] = torch.maximum(before, values.detach().max().double())

    def collect(self, processes: ProcessGroup, steps: int) -> dict[str, float]:
        """The metrics over all processes, after ``steps`` optimizer steps."""
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
