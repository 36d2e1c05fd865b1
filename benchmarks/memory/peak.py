"""The peak of a training's memory, and its speed."""

import gc
import time
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from tests.support.live_tensors import LiveTensors

MEASURED_STEPS = 2
"""The second step has what the first one leaves: the states of the optimizer."""


def timed_steps() -> int:
    """The number of steps after those."""
    return 10 if torch.cuda.is_available() else 1


@dataclass(frozen=True)
class Measured:
    """The peak in bytes, and the tokens that were trained per second."""

    peak: int
    tokens_per_second: float


class Meter:
    """Reads the peak of the first steps and times the others.

    On a GPU the peak is the allocator's, otherwise the sum of all living tensors; counting slows
    the steps that are counted.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._peak = 0
        self._began = 0.0
        self._counting = ExitStack()
        self._live: LiveTensors | None = None

    def begin(self) -> None:
        """Call it before the first step."""
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            return
        self._live = LiveTensors()
        for each in gc.get_objects():
            if isinstance(each, torch.Tensor):
                self._live.add(each)
        self._counting.enter_context(self._live)

    def end_of_step(self) -> None:
        """Call it after each step."""
        self.steps += 1
        if self.steps == MEASURED_STEPS:
            self._counting.close()
            self._peak = (
                torch.cuda.max_memory_allocated() if self._live is None else self._live.peak
            )
            self._began = _now()

    def measured(self, tokens_per_step: int) -> Measured:
        """Call it after the last step."""
        steps, seconds = self.steps - MEASURED_STEPS, _now() - self._began
        return Measured(self._peak, steps * tokens_per_step / seconds)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
