"""Advantages and objectives of other packages, installed in the runtime that trains."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from services.contracts.errors import InvalidRequest
from services.contracts.training.online import (
    DistillationHyperparameters,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)
from services.core.extensions import FAILED, blamed_on, load_extension

ADVANTAGES, OBJECTIVES = "temper.advantages", "temper.objectives"


class AdvantageFunction(Protocol):
    """Advantages (s,) of samples with ``rewards`` (s,), of which those of one prompt share a number
    in ``groups`` (s,)."""

    def __call__(self, *, rewards: Tensor, groups: Tensor) -> Tensor: ...


class ObjectiveFunction(Protocol):
    """The losses (c,) of some of a batch's tokens; the update averages and differentiates them.

    All arguments are (c,): log-probabilities in nats, of which only ``log_probs`` has a gradient,
    ``ratios`` p / p_anchor with theirs, and the sequence of each token. A loss may depend on other
    tokens of its own sequence only: a batch is computed in parts.
    """

    def __call__(
        self,
        *,
        log_probs: Tensor,
        anchor_log_probs: Tensor,
        sampler_log_probs: Tensor,
        ratios: Tensor,
        advantages: Tensor,
        sequence_of: Tensor,
    ) -> Tensor: ...


@dataclass(frozen=True)
class TrainingFunctions:
    """The advantage function and the objective of a training that are extensions."""

    advantage: AdvantageFunction | None = None
    objective: ObjectiveFunction | None = None


def load_functions(
    settings: ReinforcementHyperparameters | PpoHyperparameters | DistillationHyperparameters,
) -> TrainingFunctions:
    """Import the extensions that the hyperparameters of a method name.

    Raises `InvalidRequest` with the field of the request for one that is not installed, or cannot
    be imported or called. So do the functions themselves: if one raises, or returns anything but a
    number for each sample or token; a loss must have a gradient.
    """
    if isinstance(settings, DistillationHyperparameters):
        return TrainingFunctions()
    advantage: AdvantageFunction | None = None
    method = "ppo"
    if isinstance(settings, ReinforcementHyperparameters):
        method = "reinforcement"
        if settings.advantage_extension is not None:
            param = f"method.{method}.hyperparameters.advantage_extension"
            advantage = _Advantage(
                *_loaded(ADVANTAGES, settings.advantage_extension, param, _SAMPLES)
            )
    if settings.loss.extension is None:
        return TrainingFunctions(advantage)
    param = f"method.{method}.hyperparameters.loss.extension"
    objective = _Objective(*_loaded(OBJECTIVES, settings.loss.extension, param, _TOKENS))
    return TrainingFunctions(advantage, objective)


_SAMPLES = ("rewards", "groups")
_TOKENS = (
    *("log_probs", "anchor_log_probs", "sampler_log_probs"),
    *("ratios", "advantages", "sequence_of"),
)


def _loaded(
    group: str, name: str, param: str, arguments: Sequence[str]
) -> tuple[str, str, Callable[..., object]]:
    """An extension's name, its field, and its function, which takes the arguments."""
    function = load_extension(group, name, param)
    with blamed_on(name, param, f"cannot be called with {', '.join(arguments)}"):
        if not callable(function):
            raise TypeError(f"{type(function).__name__} is not callable")
        with suppress(ValueError):  # of functions without a signature, such as built-in ones
            inspect.signature(function).bind(**dict.fromkeys(arguments))
    return name, param, function


@dataclass(frozen=True)
class _Function:
    """A function of another package, named ``name`` in the field ``param``."""

    name: str
    param: str
    function: Callable[..., object]

    def _called(self, like: Tensor, **arguments: Tensor) -> Tensor:
        """What it returns for ``arguments``: a number for each of ``like``."""
        with blamed_on(self.name, self.param):
            try:
                values = self.function(**arguments)
            except torch.OutOfMemoryError as error:
                raise MemoryError(str(error)) from error
        if not isinstance(values, Tensor) or values.shape != like.shape:
            given = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise self._wrong(f"must return a tensor of shape {tuple(like.shape)}, not {given}")
        if values.device != like.device:
            raise self._wrong(f"must return a tensor on {like.device}, not on {values.device}")
        return values

    def _wrong(self, problem: str) -> InvalidRequest:
        message = f"the extension {self.name!r} {problem}"
        return InvalidRequest(message, param=self.param, code=FAILED)


class _Advantage(_Function):
    def __call__(self, *, rewards: Tensor, groups: Tensor) -> Tensor:
        return self._called(rewards, rewards=rewards, groups=groups).detach()


class _Objective(_Function):
    def __call__(self, *, log_probs: Tensor, **others: Tensor) -> Tensor:
        losses = self._called(log_probs, log_probs=log_probs, **others)
        if torch.is_grad_enabled() and log_probs.requires_grad and not losses.requires_grad:
            raise self._wrong("must return losses with a gradient with respect to log_probs")
        return losses
