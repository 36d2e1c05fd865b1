"""Forward passes of reward models, of sequences instead of padded rows. Written for TRL 0.24.

TRL's model with a value head scores every token and computes all logits. The loss of stage rm reads
the score of each row's last token alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from services.trainer.forward.packing import packed_states, trunk_of
from services.trainer.offline.library.sequence_forward import Laid, Sequences, why_padded


class ScoreForward:
    """The forward function of a model with a value head whose trunk takes packed rows."""

    def __init__(self, scored: Any, causal: Any) -> None:
        self._scored = scored
        self._causal = causal

    # Lengths differ in every batch: torch's compiler sees the trunk alone.
    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]  # torch is untyped here
    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> tuple[None, None, Tensor]:
        """Scores (b, n) of the last token of each row, and 0 elsewhere; in the places of logits and
        of a loss, which nothing reads, None."""
        found = Sequences.of(input_ids, attention_mask, None)
        tokens = input_ids.flatten()[found.places]
        states = packed_states(trunk_of(self._causal), tokens, found.lengths)
        last = torch.tensor(found.lengths, device=states.device).cumsum(0) - 1
        scores = self._scored.v_head(states[last]).squeeze(-1)
        return None, None, Laid(input_ids, found.places[last]).of(scores)


def score_sequences(scored: Any) -> str | None:
    """Replace the forward function of a model with a value head; returns why its rows are padded,
    if they are."""
    inner = scored.pretrained_model
    causal = getattr(inner, "get_base_model", lambda: inner)()
    padded = why_padded(causal)
    if padded is None:
        scored.forward = ScoreForward(scored, causal)
    else:
        causal.forward = _without_logits(causal.forward)
    return padded


def _without_logits(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Compute the logits of one token, and no loss: a value head reads hidden states alone."""

    def computed(*args: Any, labels: Any = None, **settings: Any) -> Any:  # noqa: ARG001 - the library passes it
        return forward(*args, logits_to_keep=1, **settings)

    return computed
