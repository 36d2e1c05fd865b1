"""Prompt log-probabilities from a server."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

TOP_K_LIMIT = 1024
"""Maximum number of alternatives per token on our servers; vLLM's default is 20."""


@dataclass(frozen=True)
class PromptLogProbs:
    """Natural log-probabilities of the n - 1 tokens after the first, at temperature 1.

    ``tokens`` has shape (n - 1,); ``top_ids`` and ``top_log_probs``, shape (n - 1, k), are the
    most probable tokens at each position, best first. Row i refers to token i + 1.
    """

    tokens: NDArray[np.float32]
    top_ids: NDArray[np.int32]
    top_log_probs: NDArray[np.float32]


class Alternative(BaseModel):
    """A candidate at a prompt position; ``rank`` 1 is the most probable."""

    logprob: float
    rank: int | None = None


PromptPlaces = list[dict[int, Alternative] | None]
"""Per prompt token: itself and the most probable ones, by id; None for the first."""


def read_prompt(
    token_ids: Sequence[int], places: PromptPlaces | None, top_k: int
) -> PromptLogProbs:
    """Arrange a server's answer; raises ValueError if it does not match ``token_ids``."""
    if places is None or len(places) != len(token_ids):
        raise ValueError("prompt_logprobs are not those of the prompt")
    tokens = np.empty(len(token_ids) - 1, np.float32)
    top_ids = np.empty((len(token_ids) - 1, top_k), np.int32)
    top_log_probs = np.empty((len(token_ids) - 1, top_k), np.float32)
    for row, (token, place) in enumerate(zip(token_ids[1:], places[1:], strict=True)):
        if place is None or token not in place or len(place) < top_k:
            raise ValueError(f"prompt_logprobs[{row + 1}] lacks tokens")
        tokens[row] = place[token].logprob
        best = sorted(place.items(), key=lambda each: -each[1].logprob)[:top_k]
        top_ids[row] = [each for each, _ in best]
        top_log_probs[row] = [known.logprob for _, known in best]
    return PromptLogProbs(tokens, top_ids, top_log_probs)
