"""Whether a model is better than the best one so far: a paired comparison with its interval."""

from collections.abc import Mapping

import numpy as np

from services.contracts.campaigns import Comparison

RESAMPLES = 10_000
SEED = 0


def compare(
    scores: Mapping[int, float], best: Mapping[int, float], *, higher_is_better: bool
) -> Comparison:
    """Compare scores by item with those of the best model.

    The interval is the percentile bootstrap of the mean paired difference (B. Efron and R. J.
    Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13), resampled from a fixed seed.
    The model improves if the whole interval lies above zero.
    """
    if not scores or scores.keys() != best.keys():
        raise ValueError("the scores are not those of the same items")
    sign = 1.0 if higher_is_better else -1.0
    differences = sign * np.array([scores[item] - best[item] for item in sorted(scores)])
    random = np.random.default_rng(SEED)
    count = len(differences)
    means = np.array(
        [differences[random.integers(0, count, count)].mean() for _ in range(RESAMPLES)]
    )
    low, high = (float(each) for each in np.quantile(means, [0.025, 0.975]))
    return Comparison(
        samples=count,
        difference=float(differences.mean()),
        ci95=(low, high),
        improves=low > 0,
    )
