"""A language model that computes logits only where they are needed, some at a time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from services.contracts.errors import InvalidRequest

LOGITS_AT_ONCE = 2**27
"""Elements: 512 MiB in float32. Beyond it logits are computed again for the gradient."""

Readings = tuple[Tensor, ...]
Reader = Callable[[Tensor, slice], Readings]
"""Takes logits (c, v) of some of the states, and which these are; returns tensors (c,)."""


class LanguageModel(nn.Module):  # type: ignore[misc]
    """A causal model of transformers, with or without an adapter of PEFT, and perhaps a critic.

    Rows are padded on the right and given without an attention mask: no token attends to what
    follows it, so that padding changes nothing.
    """

    def __init__(self, model: Any, critic: nn.Module | None = None, *, half: bool = False) -> None:
        """``half``: forward passes compute in bfloat16, whatever the weights are stored in."""
        super().__init__()
        self.half = half
        self.model = model
        self.critic = critic

    @property
    def causal(self) -> Any:
        """The model of transformers; an adapter lies within its layers."""
        get_base_model = getattr(self.model, "get_base_model", None)
        return self.model if get_base_model is None else get_base_model()

    def is_layer(self, module: nn.Module) -> bool:
        """Whether a module is one of the layers of the model, or of its critic."""
        return type(module).__name__ in (self.causal._no_split_modules or ())

    def forward(
        self, token_ids: Tensor, states: Tensor, ends: Tensor, read: Reader
    ) -> tuple[Readings, Tensor | None, Tensor | None]:
        """Read the logits at ``states`` (m,) of the flattened rows ``token_ids`` (b, n).

        Returns what ``read`` gave, and of a critic the values there (m,) and at ``ends`` (b,).
        """
        with torch.autocast(token_ids.device.type, torch.bfloat16, enabled=self.half):
            hidden = self.hidden(token_ids)
            readings = self.read(hidden[states], read)
            if self.critic is None:
                return readings, None, None
            values = self.critic(token_ids, hidden, torch.cat([states, ends]))
        return readings, values[: len(states)], values[len(states) :]

    def hidden(self, token_ids: Tensor) -> Tensor:
        """The states of the last layer, of all rows one after the other: (b * n, h)."""
        return last_states(self.causal.base_model, token_ids)

    def logits(self, states: Tensor) -> Tensor:
        """Logits (c, v) of states (c, h), in float32."""
        return self.causal.get_output_embeddings()(states).float()

    def read(self, states: Tensor, read: Reader) -> Readings:
        """Read the logits of ``states`` (m, h), never more than `LOGITS_AT_ONCE`."""
        step = max(1, LOGITS_AT_ONCE // self.causal.config.get_text_config().vocab_size)
        if len(states) <= step:
            return read(self.logits(states), slice(0, len(states)))

        def part(some: Tensor, start: int) -> Readings:
            return read(self.logits(some), slice(start, start + len(some)))

        parts = [
            checkpoint(part, some, step * number, use_reentrant=False)
            for number, some in enumerate(states.split(step))
        ]
        return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


def last_states(trunk: Any, token_ids: Tensor) -> Tensor:
    """The states of the last layer of a model without its head, flattened: (b * n, h)."""
    return trunk(input_ids=token_ids, use_cache=False).last_hidden_state.flatten(0, 1)


def check_head(model: LanguageModel) -> None:
    """Refuse a model that does more to its logits than its output layer; raises
    `InvalidRequest`."""
    device = model.causal.get_input_embeddings().weight.device
    token_ids = torch.arange(1, 5, device=device)[None]
    with torch.no_grad():
        expected = model.causal(input_ids=token_ids, use_cache=False).logits[0].float()
        computed = model.logits(model.hidden(token_ids))
    if not torch.allclose(expected, computed, rtol=1e-2, atol=1e-3):
        kind = type(model.causal).__name__
        raise InvalidRequest(
            f"{kind} cannot be trained online: its logits are not those of its output layer alone",
            param="model",
        )
