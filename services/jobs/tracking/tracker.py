"""The interface of experiment trackers.

Only the standard library is imported here, because the tracking runtime imports this module.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class End(StrEnum):
    """How a run ends for its trackers."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # a later attempt continues the run


@dataclass(frozen=True)
class TrackedRun:
    """A job as a run of a tracker. ``project`` and ``entity`` are None where the client chose none;
    ``folder`` is that of the job."""

    id: str
    name: str
    kind: str
    folder: str
    project: str | None = None
    entity: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trace:
    """A sample of the model, shortened."""

    prompt: str
    response: str
    reward: float | None = None
    details: Mapping[str, str] = field(default_factory=dict)


class Tracker(ABC):
    """One run in one tracker. Any exception ends its process, and another one starts later.

    ``saved`` is stored after `start` and after each batch of metrics, and handed to the `start` of
    the next process of the run; it is empty at the first.
    """

    saved: Mapping[str, Any] = {}

    @abstractmethod
    def start(self, run: TrackedRun, config: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        """Create the run, or continue it."""

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float], time: float) -> None:
        """Add metrics of a step, which were reported at ``time`` in seconds of the epoch."""

    @abstractmethod
    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """Add samples of a step."""

    @abstractmethod
    def finish(self, state: End) -> None:
        """Deliver what is buffered, and end the run or, when interrupted, leave it open."""
