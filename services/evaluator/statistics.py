"""What can be said of a model's accuracy from a sample of its answers."""

import math
from dataclasses import dataclass
from statistics import NormalDist

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
        raise ValueError(f"{correct} of {samples} is no proportion")
    mean = correct / samples
    stderr = math.sqrt(mean * (1 - mean) / (samples - 1)) if samples > 1 else 0.0
    return Proportion(mean, stderr, _wilson(correct, samples))


def _wilson(correct: int, samples: int) -> tuple[float, float]:
    mean, z2 = correct / samples, _Z95**2
    centre = mean + z2 / (2 * samples)
    half = _Z95 * math.sqrt(mean * (1 - mean) / samples + z2 / (4 * samples**2))
    scale = 1 + z2 / samples
    # The ends are exact where rounding would leave them a hair off.
    low = 0.0 if correct == 0 else (centre - half) / scale
    high = 1.0 if correct == samples else (centre + half) / scale
    return low, high
