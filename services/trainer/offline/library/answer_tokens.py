"""The log-probabilities of answers, as the preference methods sum them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from services.trainer.offline.generation import IGNORED


@dataclass(frozen=True)
class AnswerTokens:
    """The tokens of rows (b, n): ``log_probs`` of those that ``learned`` marks, 0 elsewhere, both
    (b, n - 1). ``mean_logits`` (b,) are over the vocabulary and an answer."""

    log_probs: Tensor
    learned: Tensor
    mean_logits: Tensor

    @classmethod
    def of(cls, model: Any, batch: Any, prefix: str = "") -> "AnswerTokens":
        """Compute those of a batch, whose keys have a prefix."""
        rows = {
            name: batch[f"{prefix}{name}"] for name in ("input_ids", "attention_mask", "labels")
        }
        found = model(**rows, per_token=True, return_dict=True, use_cache=False)
        learned = rows["labels"][:, 1:] != IGNORED
        counts = learned.sum(-1)
        means = found.mean_logits.sum(-1) / counts
        return cls(found.log_probs[:, :-1], learned, means)

    @property
    def counts(self) -> Tensor:
        """The number of tokens of each answer (b,)."""
        return self.learned.sum(-1)

    def totals(self, beyond: float | None = None) -> Tensor:
        """The sums over each answer (b,). Of a chosen half and a rejected one, tokens ``beyond``
        the length of the shorter answer have this weight (LD-DPO, Liu et al. 2024,
        arXiv:2409.06411)."""
        if beyond is None:
            return (self.log_probs * self.learned).sum(-1)
        shorter = torch.minimum(*self.counts.chunk(2)).repeat(2)
        end = self.learned.int().argmax(-1) + shorter
        places = torch.arange(self.learned.shape[1], device=end.device)
        weights = torch.where(places < end[:, None], 1.0, beyond)
        return (self.log_probs * self.learned * weights).sum(-1)
