"""Models that compute in training as in evaluation: without dropout, noise in routers, or layers
that are left out at random. Written for transformers 5.19.

Online training compares log-probabilities of gradient passes with those of the engine, of the
reference and of earlier weights, none of which draws anything but its tokens.
"""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from services.contracts.errors import InvalidRequest
from services.trainer.forward.packing import TOLERANCE, trunk_of

_RATE = re.compile(r"drop|^(input_)?jitter_noise$|^moe_jitter_eps$")
"""Names under which modules keep rates of dropout, of layers left out, and of noise."""
_DRAWING = frozenset({"PhimoeTopKRouter"})
"""Modules that draw without such a rate: this one its experts, by their probability."""
_PROBE = 16
"""Tokens that a model is tried with."""


def remove_dropout(model: nn.Module) -> None:
    """Set every such rate in a model, and in an adapter inside it, to 0.

    Rates are those that modules hold, wherever they are from. Configurations stay as they are, and
    are stored so.
    """
    for module in model.modules():
        is_dropout = "drop" in type(module).__name__.lower()
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and (_RATE.search(name) or (is_dropout and name == "p")):
                setattr(module, name, 0.0)


def drawing_modules(model: nn.Module) -> Iterator[nn.Module]:
    """The modules that compute in training as in evaluation only if they are evaluated."""
    return (each for each in model.modules() if type(each).__name__ in _DRAWING)


def check_alike(model: nn.Module, causal: Any) -> None:
    """Refuse a ``model`` whose ``causal`` one computes otherwise in training than in evaluation, in
    which it is left; raises `InvalidRequest`."""
    model.train()
    found = _states(causal)
    model.eval()
    expected = _states(causal)
    tolerance = TOLERANCE.get(expected.dtype, TOLERANCE[torch.bfloat16])
    difference = (found.float() - expected.float()).abs().max()
    if difference > tolerance * expected.float().abs().max():
        raise InvalidRequest(
            f"{type(causal).__name__} cannot be trained online: its layers compute otherwise in "
            "training than in sampling",
            param="model",
        )


def _states(causal: Any) -> Tensor:
    """The last hidden states (1, n, h) of a few tokens."""
    embeddings = causal.get_input_embeddings().weight
    token_ids = torch.arange(1, _PROBE + 1, device=embeddings.device)[None] % len(embeddings)
    with torch.no_grad():
        states: Tensor = trunk_of(causal)(input_ids=token_ids, use_cache=False).last_hidden_state
    return states
