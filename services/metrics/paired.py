"""Compares two runs on the same items with paired tests.

Every item has one value in each run; the difference is candidate minus baseline. Several samples or
seeds of an item are averaged first, so that items are what is paired. Values that are all 0 or 1
are compared by the score test of paired proportions (McNemar's), shares of 0/1 samples by Student's
paired test, others by a sign-flip permutation test. The interval holds the differences that the
same test does not reject. P-values of several comparisons are corrected after Holm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

Test = Literal["mcnemar", "paired_t", "paired_permutation"]
Values = npt.NDArray[np.float64]
Interval = tuple[float, float]

LEVEL = 0.05
EXACT_UP_TO = 14
"""Items up to which all 2**n sign flips are enumerated."""
SAMPLED_UP_TO = 5_000
"""Items up to which sign flips are sampled; beyond, their normal limit is used."""
FLIPS = 9_999
SEED = 0
_CHUNK = 250
_Z975 = NormalDist().inv_cdf(1 - LEVEL / 2)
SERIES_UP_TO = 5_000
"""Degrees of freedom beyond which Student's distribution is the normal one."""


@dataclass(frozen=True)
class PairedDifference:
    """How a candidate differs from a baseline.

    ``stderr`` is the standard error of the mean difference over items. ``ci95`` holds the
    differences that the test does not reject at the level of 5 %: it leaves out 0 exactly where
    ``p_value`` is below 0.05. ``exact_p_value`` is McNemar's exact one, of 0/1 values only; it is
    the stricter one with few items.
    """

    baseline_mean: float
    candidate_mean: float
    difference: float
    stderr: float
    ci95: Interval
    p_value: float
    test: Test
    exact_p_value: float | None = None


def compare(
    baseline: Sequence[float], candidate: Sequence[float], *, shares: bool = False
) -> PairedDifference:
    """Compare values of the same items in the same order; needs at least one item.

    ``shares`` says that each value is the share of an item's 0/1 samples, within 0 and 1.
    """
    before, after = np.asarray(baseline, np.float64), np.asarray(candidate, np.float64)
    if before.shape != after.shape or not before.size:
        raise ValueError(f"{before.size} and {after.size} values cannot be paired")
    differences = after - before
    binary = bool(np.isin(before, (0.0, 1.0)).all() and np.isin(after, (0.0, 1.0)).all())
    if binary:
        gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
        exact, test = mcnemar_exact(gained, lost), _MCNEMAR
        p_value, ci95 = score_test(gained, lost, differences.size)
    else:
        exact, test = None, _STUDENT if shares else _SIGN_FLIP
        p_value, ci95 = shares_test(differences) if shares else sign_flip_test(differences)
    return PairedDifference(
        baseline_mean=float(before.mean()),
        candidate_mean=float(after.mean()),
        difference=float(differences.mean()),
        stderr=_stderr(differences),
        ci95=ci95,
        p_value=p_value,
        test=test,
        exact_p_value=exact,
    )


_MCNEMAR: Test = "mcnemar"
_STUDENT: Test = "paired_t"
_SIGN_FLIP: Test = "paired_permutation"


def shares_test(differences: Values) -> tuple[float, Interval]:
    """The two-sided p-value of differences between shares, and their 95 % interval.

    Both are Student's. Where all items differ by the same amount, as by none, they are those of
    the adjusted Wald interval of D. G. Bonett and R. M. Price, "Adjusted Wald Confidence Interval
    for a Difference of Binomial Proportions Based on Paired Data", Journal of Educational and
    Behavioral Statistics 37 (2012), which keeps a width then.
    """
    all_alike = float(np.ptp(differences)) == 0.0
    p_value, (low, high) = (_adjusted_wald if all_alike else student_test)(differences)
    return p_value, (max(-1.0, low), min(1.0, high))


def student_test(differences: Values) -> tuple[float, Interval]:
    """The two-sided p-value of Student's paired test, and its 95 % interval."""
    mean, stderr, freedom = float(differences.mean()), _stderr(differences), differences.size - 1
    if stderr == 0.0:
        return (1.0 if mean == 0.0 or freedom == 0 else 0.0), (mean, mean)
    half = _student_quantile(freedom) * stderr
    return student_tails(mean / stderr, freedom), (mean - half, mean + half)


def _stderr(differences: Values) -> float:
    items = differences.size
    return float(differences.std(ddof=1)) / math.sqrt(items) if items > 1 else 0.0


def student_tails(t: float, freedom: int) -> float:
    """Student's probability of more than ``t`` to either side (M. Abramowitz and I. A. Stegun,
    "Handbook of Mathematical Functions", 26.7.3 and 26.7.4)."""
    if freedom > SERIES_UP_TO:
        return math.erfc(abs(t) / math.sqrt(2))
    angle = math.atan(abs(t) / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (power - 1) / power
    inside = math.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + inside)
    return max(0.0, 1.0 - inside)


@cache
def _student_quantile(freedom: int) -> float:
    """What Student's variable exceeds to either side with a probability of 5 %."""
    low, high = _Z975, 13.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if student_tails(middle, freedom) > LEVEL:
            low = middle
        else:
            high = middle
    return high


def sign_flip_test(differences: Values) -> tuple[float, Interval]:
    """The two-sided p-value of the mean difference if each item's sign were a coin toss, and the
    means that this test does not reject at the level of 5 %.

    All flips are enumerated for up to `EXACT_UP_TO` items, `FLIPS` sampled (with a fixed seed, so
    that the result repeats) for up to `SAMPLED_UP_TO`. The flips that are as extreme as what was
    observed, if the true mean is x, are those of a subset with a mean up to x (J. A. Hartigan,
    "Using Subsample Values as Typical Values", Journal of the American Statistical Association 64
    (1969)): the interval is between two of these means. Fewer than 6 items reject nothing; their
    interval is Student's, as far as it must to hold 0.
    """
    items, mean = differences.size, float(differences.mean())
    if items > SAMPLED_UP_TO:
        return _normal_limit(differences)
    means, flips = _subset_means(differences)
    tiny = 1e-12 * float(np.abs(differences).max())  # equal but for rounding
    extreme = int((means <= tiny).sum() if mean > 0 else (means >= -tiny).sum())
    p_value = min(1.0, (1 + extreme) / flips)
    rank = math.ceil(LEVEL * flips - 1)
    if rank < 1:
        _, (low, high) = student_test(differences)
        return p_value, (min(low, 0.0), max(high, 0.0))
    low, high = float(means[rank - 1]), float(means[-rank])
    return p_value, (0.0 if abs(low) <= tiny else low, 0.0 if abs(high) <= tiny else high)


def _subset_means(differences: Values) -> tuple[Values, int]:
    """The sorted means of the items that each pair of opposite flips turns, and the number of
    pairs, in which the observed signs are one."""
    items = differences.size
    if items <= EXACT_UP_TO:
        codes = np.arange(1, 2**items)[:, None] >> np.arange(items) & 1
        sizes, sums = codes.sum(axis=1), codes @ differences
        return np.sort(sums / sizes), 2 ** (items - 1)
    rng = np.random.default_rng(SEED)
    total = float(differences.sum())
    found: list[Values] = []
    for start in range(0, FLIPS, _CHUNK):
        shape = (min(_CHUNK, FLIPS - start), items)
        turned = rng.integers(0, 2, shape, dtype=np.int8).astype(np.float64)
        sizes, sums = turned.sum(axis=1), turned @ differences
        found += (sums / np.maximum(sizes, 1), (total - sums) / np.maximum(items - sizes, 1))
    return np.sort(np.concatenate(found)), FLIPS + 1


def _normal_limit(differences: Values) -> tuple[float, Interval]:
    items, mean = differences.size, float(differences.mean())
    squares = float(differences @ differences)
    if squares == 0.0:
        return 1.0, (0.0, 0.0)
    p_value = math.erfc(items * abs(mean) / math.sqrt(2 * squares))
    half = _Z975 * float(differences.std()) / math.sqrt(items - _Z975**2)
    return p_value, (mean - half, mean + half)


def _adjusted_wald(differences: Values) -> tuple[float, Interval]:
    """The Wald interval with one further difference of 1 and one of -1, and the p-value of its
    test."""
    items = differences.size + 2
    mean = float(differences.sum()) / items
    stderr = math.sqrt((float(differences @ differences) + 2) / items - mean**2) / math.sqrt(items)
    p_value = math.erfc(abs(mean) / stderr / math.sqrt(2))
    return p_value, (mean - _Z975 * stderr, mean + _Z975 * stderr)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (S. Holm, "A Simple Sequentially Rejective Multiple Test
    Procedure", Scandinavian Journal of Statistics 6 (1979)), in the given order."""
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = floor
    return adjusted


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
