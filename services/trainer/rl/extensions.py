"""Advantages and objectives of other packages, installed in the runtime that trains."""

from typing import Protocol

from torch import Tensor

from services.contracts.errors import InvalidRequest
from services.core.extensions import load_extension

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


def load_advantage(name: str) -> AdvantageFunction:
    """The advantage function of an extension; raises `InvalidRequest`."""
    function: AdvantageFunction = load_extension(ADVANTAGES, name, "advantage_extension")
    return function


def load_objective(name: str) -> ObjectiveFunction:
    """The objective of an extension; raises `InvalidRequest`."""
    function: ObjectiveFunction = load_extension(OBJECTIVES, name, "loss.extension")
    return function


def checked(values: object, like: Tensor, name: str) -> Tensor:
    """What an extension returned, if it is a number for each of ``like``; else `InvalidRequest`."""
    if isinstance(values, Tensor) and values.shape == like.shape:
        return values
    shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
    wanted = tuple(like.shape)
    message = f"the extension {name!r} must return a tensor of shape {wanted}, not {shape}"
    raise InvalidRequest(message, code="extension_failed")
