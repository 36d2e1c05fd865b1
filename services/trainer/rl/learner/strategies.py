"""How several processes share a model and its optimiser, with what torch has for it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from services.trainer.rl.learner.language_model import LanguageModel
from services.trainer.rl.learner.optimiser import clipped_norms

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
