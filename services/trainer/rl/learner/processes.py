"""The processes that train together, and the devices they compute on."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor

from services.contracts.online import Optimisation
from services.trainer.rl.learner.language_model import LanguageModel
from services.trainer.rl.learner.strategies import Build, Replicated, Sharded, Strategy

TIMEOUT = timedelta(minutes=30)
"""For processes that wait for each other in the midst of a computation."""


class Processes:
    """This process among those that train together; a single one is all of them."""

    def __init__(self, settings: Optimisation) -> None:
        """Meet the others, whom the environment of torch's launcher names."""
        group = InitProcessGroupKwargs(timeout=TIMEOUT)
        self._accelerator = Accelerator(kwargs_handlers=[group])
        self._wire = dist.new_group(backend="gloo") if self.count > 1 else None
        self.computes_in_half = _computes_in_half(settings)
        """Whether forward passes run in bfloat16."""
        self.strategy = self._strategy(settings)
        """How they share a model and its optimiser."""

    @property
    def rank(self) -> int:
        """Which this process is, from 0."""
        return int(self._accelerator.process_index)

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self._accelerator.num_processes)

    @property
    def leads(self) -> bool:
        """Whether this process speaks with the coordinator and writes files."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self._accelerator.device

    def place(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        """Bring a model that is trained to the devices; returns what is called in its place, and
        its optimiser."""
        return self.strategy.place(model, build)

    def frozen(self, model: LanguageModel) -> LanguageModel:
        """Move a model that is not trained to this process's device."""
        model.to(self.device)
        model.eval()
        return model

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, for each of them; in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def maximum(self, tensor: Tensor) -> Tensor:
        """The maximum over all processes, for each of them; in place."""
        if self.count > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor

    def gradients(self, *, last: bool) -> AbstractContextManager[None]:
        """Within it gradients are computed; only the ``last`` ones are exchanged."""
        return self.strategy.exchange(wanted=last)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of this process's part of a sum: exchanging takes the mean."""
        self.strategy.backward(loss * self.count)

    def step(self) -> Mapping[str, float]:
        """Take an optimiser step; returns the norms of the gradients before they were clipped.

        Raises `Diverged`.
        """
        return self.strategy.step()

    def barrier(self) -> None:
        """Wait for all."""
        if self.count > 1:
            dist.barrier()

    def shared(self, read: Callable[[], bytes]) -> bytes:
        """What the leading process reads, for each process."""
        if self._wire is None:
            return read()
        content = read() if self.leads else b""
        length = torch.tensor(len(content))
        dist.broadcast(length, 0, group=self._wire)
        buffer = torch.zeros(int(length), dtype=torch.uint8)
        if content:
            buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(buffer, 0, group=self._wire)
        return bytes(buffer.tolist())

    def _strategy(self, settings: Optimisation) -> Strategy:
        if self.count == 1 or settings.strategy == "ddp":
            return Replicated(self._accelerator, settings.max_grad_norm)
        if settings.strategy == "fsdp":
            return Sharded(self._accelerator, settings.max_grad_norm)
        # Imported late: it takes seconds, and starts compilers to see what there is.
        zero = import_module("services.trainer.rl.learner.zero").Zero
        strategy: Strategy = zero(self.device, settings, half=self.computes_in_half)
        return strategy


def _computes_in_half(settings: Optimisation) -> bool:
    if settings.dtype != "auto":
        return settings.dtype == "bfloat16"
    return bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported())
