"""The processes that train together, and the devices they compute on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from services.contracts.online import Optimisation
from services.trainer.rl.learner.model import LanguageModel
from services.trainer.rl.learner.optimizer import clipped_norms

TIMEOUT = timedelta(minutes=30)
"""For processes that wait for each other in the midst of a computation."""

Build = Callable[[LanguageModel], torch.optim.Optimizer]


class ParameterState(NamedTuple):
    """A parameter, its whole value, and what the optimiser keeps for it, by name."""

    parameter: Tensor
    value: Tensor
    moments: Mapping[str, Tensor]


class Strategy(Protocol):
    """What differs between the ways of sharing. All processes call every method at once."""

    def place(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        """Bring a model to the devices and build its optimiser; returns what is called in the
        model's place, and the optimiser, whose groups tell and take the learning rates."""
        ...

    def exchange(self, *, wanted: bool) -> AbstractContextManager[None]:
        """Within it gradients are computed; only if ``wanted`` they are exchanged."""
        ...

    def backward(self, loss: Tensor) -> None:
        """Add a gradient, of which the mean over all processes is taken."""
        ...

    def step(self) -> Mapping[str, float]:
        """Take an optimiser step with gradients of limited norm, and forget them.

        Returns their norms before, by what they are called as a metric. Raises `Diverged`.
        """
        ...

    def whole(self, parameter: Tensor) -> Tensor:
        """A copy on the CPU of a parameter that is trained, in the precision of the optimiser."""
        ...

    def moments(self, parameter: Tensor) -> Mapping[str, Tensor]:
        """Copies on the CPU of what the optimiser keeps for a parameter; empty at the start."""
        ...

    def restore(self, states: Sequence[ParameterState]) -> None:
        """Set parameters and their moments to what `whole` and `moments` gave."""
        ...


class Replicated:
    """A whole copy in each process (DDP); one process alone has just its copy."""

    def __init__(self, accelerator: Accelerator, max_norm: float) -> None:
        self._accelerator = accelerator
        self._max_norm = max_norm
        self._model: Any = None
        self._optimiser: Any = None

    def place(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        self._model = self._accelerator.prepare_model(model)
        self._optimiser = build(model)
        return self._model, self._optimiser

    def exchange(self, *, wanted: bool) -> AbstractContextManager[None]:
        return nullcontext() if wanted else self._accelerator.no_sync(self._model)

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def step(self) -> Mapping[str, float]:
        norms = clipped_norms(self._optimiser, self._max_norm)
        self._optimiser.step()
        self._optimiser.zero_grad()
        return norms

    def whole(self, parameter: Tensor) -> Tensor:
        return copied(parameter)

    def moments(self, parameter: Tensor) -> Mapping[str, Tensor]:
        return {name: copied(each) for name, each in self._optimiser.state[parameter].items()}

    def restore(self, states: Sequence[ParameterState]) -> None:
        for parameter, value, moments in states:
            with torch.no_grad():
                parameter.copy_(_laid_like(parameter, value))
            for name, moment in moments.items():
                # The count of steps is a number, which optimisers keep on the CPU.
                is_number = moment.shape != parameter.shape
                laid = moment if is_number else _laid_like(parameter, moment)
                self._optimiser.state[parameter][name] = laid


class Sharded(Replicated):
    """A part of each layer in each process (FSDP2); layers are gathered when they compute."""

    def place(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        model.to(self._accelerator.device)
        for module in [each for each in model.modules() if model.is_layer(each)]:
            fully_shard(module)
        # What is not in a layer too: gathered weights are not those that the optimiser knows, and
        # a checkpoint after a forward pass would miss their moments.
        self._model = fully_shard(model, reshard_after_forward=True)
        self._optimiser = build(model)
        return self._model, self._optimiser

    def exchange(self, *, wanted: bool) -> AbstractContextManager[None]:
        self._model.set_requires_gradient_sync(wanted)
        return nullcontext()


def copied(tensor: Tensor) -> Tensor:
    """A copy on the CPU, also of a tensor that is spread over processes."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().to("cpu", copy=True).contiguous()


def _laid_like(tensor: Tensor, whole: Tensor) -> Tensor:
    """A whole tensor, on the device of another one and spread as it is."""
    placed = whole.to(tensor.device)
    if isinstance(tensor, DTensor):
        return distribute_tensor(placed, tensor.device_mesh, tensor.placements)
    return placed


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
