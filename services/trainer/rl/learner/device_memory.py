"""The learner's share of its GPU: what it computes at once, and its limit beside an engine.

A colocated engine was given its share of the GPU when it started. One that sleeps lends it to the
learner during updates, and needs all of it again to wake up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from services.core.model_shape import read_shape
from services.core.online_memory import (
    LearnerShare,
    MicroBatching,
    choose_micro_batching,
    learner_load,
    learner_share,
)
from services.trainer.rl.learner.protocol import LearnerSpec


@dataclass(frozen=True)
class DeviceMemory:
    """Limits what PyTorch allocates on a GPU to the learner's share; on the CPU it does nothing."""

    device: torch.device
    share: LearnerShare
    colocated: bool

    @classmethod
    def of(cls, spec: LearnerSpec, device: torch.device) -> "DeviceMemory":
        """The share that a spec gives its learner."""
        share = learner_share(spec.settings.placement, colocated=spec.colocated)
        return cls(device, share, spec.colocated)

    @property
    def bytes(self) -> int | None:
        """The size of the GPU; None on the CPU."""
        if self.device.type != "cuda":
            return None
        return int(torch.cuda.get_device_properties(self.device).total_memory)

    def limit(self) -> None:
        """Leave a colocated engine its share from now on: what exceeds the learner's own fails as
        out of memory here, and not in the engine."""
        self._limit(self.share.awake)

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Take what a sleeping engine has released; afterwards nothing of it is kept cached."""
        if self.share.updating == self.share.awake:
            yield
            return
        self._limit(self.share.updating)
        try:
            yield
        finally:
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            self.limit()

    def _limit(self, share: float) -> None:
        if self.colocated and self.device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(share, self.device)


def micro_batching(spec: LearnerSpec, memory: DeviceMemory, processes: int) -> MicroBatching:
    """What the learner computes at once: as its settings say, or as its GPU's memory allows."""
    online = spec.method.online
    shape = read_shape(spec.model)
    load = None
    if online is not None and shape is not None:
        load = learner_load(
            shape,
            online,
            devices=processes,
            continues_adapter=spec.adapter is not None,
            teacher=None if spec.teacher is None else read_shape(spec.teacher),
        )
    optimizer = spec.settings.optimizer
    return choose_micro_batching(load, optimizer, memory.bytes, memory.share.updating)
