"""Tests of paired 0/1 values, by the items that differ: those gained and those lost."""

import math
from statistics import NormalDist

Interval = tuple[float, float]

_Z975 = NormalDist().inv_cdf(0.975)
_HALVINGS = 60


def score_test(gained: int, lost: int, items: int) -> tuple[float, Interval]:
    """The two-sided p-value of the difference in proportions, and its 95 % interval.

    Both are of one test, so that the interval leaves out 0 exactly where the p-value is below 0.05:
    the score test of a difference of paired proportions (T. Tango, "Equivalence Test and Confidence
    Interval for the Difference in Proportions for the Paired-Sample Design", Statistics in Medicine
    17 (1998)), which for a difference of 0 is McNemar's test without correction.
    """
    discordant = gained + lost
    z = (gained - lost) / math.sqrt(discordant) if discordant else 0.0
    observed = (gained - lost) / items
    low = _bound(gained, lost, items, (-1.0, observed))
    high = -_bound(lost, gained, items, (-1.0, -observed))
    return math.erfc(abs(z) / math.sqrt(2)), (low, high)


def _bound(gained: int, lost: int, items: int, within: Interval) -> float:
    """The smallest difference that is not rejected as too small."""
    low, high = within
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _score(gained, lost, items, middle) > _Z975:
            low = middle
        else:
            high = middle
    return high


def _score(gained: int, lost: int, items: int, difference: float) -> float:
    """Standard deviations between what was observed and a true difference below it, with the
    variance that is most likely under that difference (Tango's equations 10 and 11)."""
    beyond = gained - lost - items * difference
    linear = -gained - lost + (2 * items - gained + lost) * difference
    constant = -lost * difference * (1 - difference)
    root = math.sqrt(max(0.0, linear**2 - 8 * items * constant))
    share_lost = (root - linear) / (4 * items)
    variance = items * (2 * share_lost + difference * (1 - difference))
    return beyond / math.sqrt(variance) if variance > 0 else math.inf


def mcnemar_exact(gained: int, lost: int) -> float:
    """The two-sided p-value of ``gained`` and ``lost`` items: a binomial test with p = 1/2."""
    discordant, fewer = gained + lost, min(gained, lost)
    log_total = math.lgamma(discordant + 1) - discordant * math.log(2)
    tail = math.fsum(
        math.exp(log_total - math.lgamma(k + 1) - math.lgamma(discordant - k + 1))
        for k in range(fewer + 1)
    )
    return min(1.0, 2 * tail)
