"""This process's share of a GPU that it shares with an engine."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from services.contracts.failures import FailureCode
from services.trainer.errors import TrainingFailure
from services.trainer.rl.learner.protocol import ColocatedEngine

CONTEXT_BYTES = 1 << 30
"""Memory that CUDA and NCCL use outside the allocator, whose statistics omit it."""


class CardMemory:
    """Keeps the learner out of the memory of a colocated engine; without one it does nothing.

    A caching allocator holds on to freed memory, so an engine that starts or wakes runs out of it.
    So the learner's memory is capped while the engine is awake: the learner fails first, with a
    message that names the setting.
    """

    def __init__(self, device: torch.device, engine: ColocatedEngine | None) -> None:
        """Cap the memory immediately if the engine shares this device."""
        self._device = device
        self._engine = engine if device.type == "cuda" else None
        self._cap = 1.0
        if self._engine is not None:
            total = torch.cuda.get_device_properties(device).total_memory
            self._cap = max(0.0, 1.0 - self._engine.memory - CONTEXT_BYTES / total)
            torch.cuda.set_per_process_memory_fraction(self._cap, device)

    @contextmanager
    def update(self) -> Iterator[None]:
        """Lift the cap for the duration of an update, if the engine sleeps through it. Raises
        `TrainingFailure` if the memory still in use afterwards leaves the engine no room to wake.
        """
        if self._engine is None or not self._engine.sleeps:
            yield
            return
        torch.cuda.set_per_process_memory_fraction(1.0, self._device)
        yield
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(self._cap, self._device)
        self._check_room()

    def _check_room(self) -> None:
        held = torch.cuda.memory_reserved(self._device)
        total = torch.cuda.get_device_properties(self._device).total_memory
        if held > self._cap * total:
            raise TrainingFailure(
                f"weights and optimizer keep {held / 1e9:.1f} GB of the GPU's "
                f"{total / 1e9:.1f} GB, and the engine cannot wake beside them: "
                f"lower placement.engine_memory, set optimizer.offload, or use more GPUs",
                code=FailureCode.OUT_OF_MEMORY,
                param="placement.engine_memory",
            )
