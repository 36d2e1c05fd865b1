"""The logits of hidden states, as a model itself computes them: scaled, soft-capped or biased.

They are read a part at a time, so that they never exist whole: (tokens, vocabulary) numbers are
most of the memory of a step of a small model. A part is computed again for its gradient. Written
out with torch rather than by Liger's kernels, which need Triton and a GPU, and leave no entropies,
divergences or most probable tokens.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from services.contracts.errors import InvalidRequest
from services.models.capacity.training import LOGITS_AT_ONCE
from services.trainer.forward.packing import evaluating, trunk_of

LARGE = 100.0
"""A factor of hidden states at which soft-capped logits are not those of the layer alone."""


class OutputLayer:
    """Computes logits from a causal transformers model's last hidden states.

    Most families apply a linear layer alone. Of the others the forward function is called, with
    the given states in the place of its trunk's.
    """

    def __init__(self, model: Any) -> None:
        """Find out which it is; a model without weights in this process is called."""
        self._model = model
        self._linear = False
        if not any(each.is_meta or hasattr(each, "ds_id") for each in model.parameters()):
            self._linear = _is_linear(model)

    def __call__(self, states: Tensor) -> Tensor:
        """Logits (c, v) of states (c, h), in float32."""
        if self._linear:
            return _linear_logits(self._model, states)
        return _own_logits(self._model, states)

    def check(self) -> None:
        """Refuse a model whose logits are not those of its last hidden states; raises
        `InvalidRequest`."""
        model = self._model
        device = model.get_input_embeddings().weight.device
        token_ids = torch.arange(1, 5, device=device)[None]
        with torch.no_grad(), evaluating(model):
            expected = model(input_ids=token_ids, use_cache=False).logits[0].float()
            states = trunk_of(model)(input_ids=token_ids, use_cache=False).last_hidden_state[0]
            computed = self(states)
        if not torch.allclose(expected, computed, rtol=1e-2, atol=1e-3):
            raise InvalidRequest(
                f"{type(model).__name__} cannot be trained: its logits are not those of its last "
                "hidden states",
                param="model",
            )


def _is_linear(model: Any) -> bool:
    head = model.get_output_embeddings()
    weight = head.weight
    drawn = torch.randn(4, weight.shape[1], generator=torch.Generator().manual_seed(0))
    states = (LARGE * drawn).to(weight)
    with torch.no_grad():
        return bool(torch.equal(_own_logits(model, states), _linear_logits(model, states)))


def _linear_logits(model: Any, states: Tensor) -> Tensor:
    logits: Tensor = model.get_output_embeddings()(states).float()
    return logits


def _own_logits(model: Any, states: Tensor) -> Tensor:
    token_ids = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
    with _trunk_gives(model, states):
        logits: Tensor = type(model).forward(model, input_ids=token_ids, use_cache=False).logits
    return logits[0].float()


@contextmanager
def _trunk_gives(model: Any, states: Tensor) -> Iterator[None]:
    """Within it, the trunk of a model returns ``states`` (c, h) for any tokens."""
    trunk = trunk_of(model)
    name = next(name for name, module in model.named_children() if module is trunk)
    model._modules[name] = _Given(trunk, states)
    try:
        yield
    finally:
        model._modules[name] = trunk


class _Given(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Stands in for a trunk, which keeps its other attributes."""

    def __init__(self, trunk: nn.Module, states: Tensor) -> None:
        super().__init__()
        self._others = (trunk,)  # in a tuple, which hides it from the list of modules
        self._states = states[None]

    @property
    def decoder(self) -> "_Given":
        """Itself: some models call a part of their trunk."""
        return self

    def forward(self, *_: Any, **__: Any) -> "_Output":
        return _Output(self._states)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_others"][0], name)


class _Output:
    """What a trunk returns, of which only the last hidden states are there."""

    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, place: int) -> Tensor:
        return (self.last_hidden_state,)[place]

    def __getattr__(self, _: str) -> None:
        return None


MAX_LOGITS = LOGITS_AT_ONCE
"""Elements of a part: 256 MiB in float32."""

Readings = tuple[Tensor, ...]
Reader = Callable[[Tensor, slice], Readings]
"""Takes logits (c, v) of some of the states and the slice they are; returns tensors (c,)."""


def read_logits(
    states: Tensor, logits_of: Callable[[Tensor], Tensor], read: Reader, vocabulary: int
) -> Readings:
    """Read the logits of ``states`` (m, h), at most `MAX_LOGITS` at once; ``logits_of`` computes
    those of some, (c, v) in float32."""
    step = max(1, MAX_LOGITS // vocabulary)

    def part(some: Tensor, start: int) -> Readings:
        return read(logits_of(some), slice(start, start + len(some)))

    if len(states) <= step:
        return part(states, 0)
    parts = [
        checkpoint(part, some, step * number, use_reentrant=False)
        for number, some in enumerate(states.split(step))
    ]
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))
