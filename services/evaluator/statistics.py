"""Means and quantiles of samples, and the uncertainty of means."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.contracts.rollouts.rollouts import RewardSpread, Spread

Values = npt.NDArray[np.float64]
Z95 = 1.96


def spread(values: Sequence[float]) -> Spread:
    """Describe values; needs at least one."""
    return Spread(**_quantiles(np.asarray(values, np.float64)))


def reward_spread(values: Sequence[float], prompts: Sequence[int]) -> RewardSpread:
    """Describe rewards, each of a sample of the prompt in the same place; needs at least one.

    The standard error is that of a mean over clusters (W. G. Cochran, "Sampling Techniques",
    1977): samples of one prompt are alike, and more of them tell little that is new.
    """
    rewards = np.asarray(values, np.float64)
    mean = float(rewards.mean())
    stderr = _stderr(rewards - mean, np.asarray(prompts, np.int64))
    ci95 = (mean - Z95 * stderr, mean + Z95 * stderr)
    return RewardSpread(**_quantiles(rewards), stderr=stderr, ci95=ci95)


def _quantiles(values: Values) -> dict[str, float]:
    median, p95 = np.quantile(values, [0.5, 0.95])
    return {
        "count": len(values),
        "mean": float(values.mean()),
        "min": float(values.min()),
        "median": float(median),
        "p95": float(p95),
        "max": float(values.max()),
    }


def _stderr(deviations: Values, prompts: npt.NDArray[np.int64]) -> float:
    number = len(deviations)
    if number == 1:
        return 0.0
    _, cluster = np.unique(prompts, return_inverse=True)
    sums = np.bincount(cluster, weights=deviations)
    if len(sums) == 1:
        return float(deviations.std(ddof=1)) / math.sqrt(number)
    variance = float((sums**2).sum()) * len(sums) / (len(sums) - 1)
    return math.sqrt(variance) / number
