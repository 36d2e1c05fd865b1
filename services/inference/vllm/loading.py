"""Mends how vLLM loads two families of models, on every host, in each of its workers.

The checkpoints of Laguna have the bias that corrects the choice of experts beside the experts. vLLM
looks for weights of single experts there, and leaves out what is none: without a word, such a model
answers with other experts.

The two parameters of an activation of Apertus (xIELU) are kept in bfloat16 whatever the type of the
model, so that float32 weights are rounded.

vLLM's worker takes a class of this module as a base (``--worker-extension-cls``), and importing it
mends. Written for vLLM 0.32.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers.activation import XIELU
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.model_loader.weight_utils import default_weight_loader

BIAS = "e_score_correction_bias"
Weights = Iterable[tuple[str, Tensor]]

_load = RoutedExperts.load_weights
_make = XIELU.__init__


class MendedWorker:
    """A base of vLLM's worker that adds nothing to it."""


def mend_loading() -> None:
    """Replace vLLM's functions; before a model is made."""
    RoutedExperts.load_weights = load_experts
    XIELU.__init__ = make_xielu


def load_experts(self: Any, weights: Weights) -> Iterable[str]:
    """Load weights of experts and, if it is among them, the bias (experts,) of their choice;
    yields the names of parameters that were loaded."""
    found: list[Tensor] = []
    yield from _load(self, _without_bias(weights, found))
    bias = self.e_score_correction_bias
    if found and bias is not None:
        getattr(bias, "weight_loader", default_weight_loader)(bias, found[0])
        yield BIAS


def _without_bias(weights: Weights, found: list[Tensor]) -> Weights:
    for name, weight in weights:
        if name == BIAS:
            found.append(weight)
        else:
            yield name, weight


def make_xielu(self: Any, *values: Any, **settings: Any) -> None:
    """Make an activation whose parameters have the type of the model."""
    _make(self, *values, **{"dtype": torch.get_default_dtype(), **settings})


mend_loading()
