"""Whether sampled tokens are distributed as a model says, by tests of martingales.

Given the tokens before it, a token is drawn with known probabilities. So the number of tokens of a
kind, less the sum of the probabilities of that kind, is a sum of uncorrelated terms with mean 0,
whatever was sampled before; over thousands of tokens it is normal.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST_SURPLUS = 5.4
"""Exceeded with a probability of 7e-8."""
LARGEST_DISTANCE = 37.0
"""Exceeded with a probability of 5e-8, for four kinds of tokens: three degrees of freedom."""


def surplus(hits: NDArray[np.bool_], chances: Floats) -> float:
    """How many more tokens (n,) of a kind there are than expected by their ``chances`` (n,), in
    standard deviations."""
    return float((hits - chances).sum() / np.sqrt((chances * (1.0 - chances)).sum()))


def distance(kinds: NDArray[np.int_], chances: Floats) -> float:
    """The squared distance of the counts of ``kinds`` (n,) from those expected by their ``chances``
    (n, k), whose rows sum to 1: chi-square distributed with k - 1 degrees of freedom."""
    free = chances.shape[1] - 1
    counts = np.bincount(kinds, minlength=free + 1)[:free]
    chosen = chances[:, :free]
    spread = np.diag(chosen.sum(0)) - chosen.T @ chosen
    missed = counts - chosen.sum(0)
    return float(missed @ np.linalg.solve(spread, missed))
