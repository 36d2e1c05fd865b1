"""The model that training began with."""

from contextlib import nullcontext
from typing import Any

from torch import Tensor

from services.trainer.rl.learner.scoring import Scorer
from services.trainer.rl.learner.trained_tokens import TrainedTokens


class Reference:
    """Scores a batch with a frozen copy, or with the policy while its adapter is off."""

    def __init__(self, scorer: Scorer, adapted: Any | None = None) -> None:
        """``scorer`` is the copy's, or with ``adapted``, a model of PEFT, the policy's own."""
        self._scorer = scorer
        self._adapted = adapted

    def log_probs(self, tokens: TrainedTokens, temperature: float) -> Tensor:
        """Log-probabilities of the trained tokens (m,)."""
        switched_off = nullcontext() if self._adapted is None else self._adapted.disable_adapter()
        with switched_off:
            return self._scorer.score(tokens, temperature).log_probs
