"""Estimates from samples: proportions, means, quantiles, and their uncertainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from services.contracts.rollouts import RewardSpread, Spread

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Proportion:
    """A share of right answers, with its uncertainty.

    ``stderr`` is the standard error of the mean of the 0/1 scores (their standard deviation with
    n - 1, over the square root of n; 0 for a single sample). ``ci95`` is the score interval of
    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of
    the American Statistical Association 22 (1927): unlike mean +- 1.96 stderr it stays within
    [0, 1] and keeps a width when all answers are right or all are wrong.
    """

    mean: float
    stderr: float
    ci95: tuple[float, float]


def proportion(correct: int, samples: int) -> Proportion:
    """Describe ``correct`` right answers out of ``samples``; needs at least one sample."""
    if samples < 1 or not 0 <= correct <= samples:
        raise ValueError(f"{correct} of {samples} is not a proportion")
    mean = correct / samples
    stderr = math.sqrt(mean * (1 - mean) / (samples - 1)) if samples > 1 else 0.0
    return Proportion(mean, stderr, _wilson(correct, samples))


def _wilson(correct: int, samples: int) -> tuple[float, float]:
    mean, z2 = correct / samples, _Z95**2
    center = mean + z2 / (2 * samples)
    half = _Z95 * math.sqrt(mean * (1 - mean) / samples + z2 / (4 * samples**2))
    scale = 1 + z2 / samples
    # The ends are exact where rounding would leave them a hair off.
    low = 0.0 if correct == 0 else (center - half) / scale
    high = 1.0 if correct == samples else (center + half) / scale
    return low, high


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
