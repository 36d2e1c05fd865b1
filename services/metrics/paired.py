"""Compares two runs on the same items with paired tests.

Every item has one value in each run; the difference is candidate minus baseline. Values that are
all 0 or 1 are tested with McNemar's exact test, others with a sign-flip permutation test. P-values
of several comparisons are corrected after Holm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

Test = Literal["mcnemar_exact", "paired_permutation"]
Values = npt.NDArray[np.float64]

EXACT_UP_TO = 14
"""Differences up to which all 2**n sign flips are enumerated."""
SAMPLED_UP_TO = 5_000
"""Differences up to which sign flips are sampled; beyond, their normal limit is used."""
FLIPS = 9_999
SEED = 0
_CHUNK = 250
_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class PairedDifference:
    """How a candidate differs from a baseline.

    ``stderr`` is the standard error of the mean difference over items. ``ci95`` is, for 0/1 values,
    the adjusted Wald interval of D. G. Bonett and R. M. Price, "Adjusted Wald Confidence Interval
    for a Difference of Binomial Proportions Based on Paired Data", Journal of Educational and
    Behavioral Statistics 37 (2012), which keeps a width when no item differs; for shares of 0/1
    values its extension to them (see `compare`); else mean +- 1.96 ``stderr``.
    """

    baseline_mean: float
    candidate_mean: float
    difference: float
    stderr: float
    ci95: tuple[float, float]
    p_value: float
    test: Test


def compare(
    baseline: Sequence[float], candidate: Sequence[float], *, shares: bool = False
) -> PairedDifference:
    """Compare values of the same items in the same order; needs at least one item.

    ``shares`` says that each value is the share of an item's 0/1 samples: items are clusters. The
    interval of 0/1 values adds one item that is gained and one that is lost; that of shares does
    the same, and is narrower as far as differences within items are smaller than 1.
    """
    before, after = np.asarray(baseline, np.float64), np.asarray(candidate, np.float64)
    if before.shape != after.shape or not before.size:
        raise ValueError(f"{before.size} and {after.size} values cannot be paired")
    differences = after - before
    binary = bool(np.isin(before, (0.0, 1.0)).all() and np.isin(after, (0.0, 1.0)).all())
    mean = float(differences.mean())
    stderr = float(differences.std(ddof=1)) / math.sqrt(before.size) if before.size > 1 else 0.0
    gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
    return PairedDifference(
        baseline_mean=float(before.mean()),
        candidate_mean=float(after.mean()),
        difference=mean,
        stderr=stderr,
        ci95=(
            _adjusted_wald(differences)
            if binary or shares
            else (mean - _Z95 * stderr, mean + _Z95 * stderr)
        ),
        p_value=mcnemar_exact(gained, lost) if binary else sign_flip_test(differences),
        test="mcnemar_exact" if binary else "paired_permutation",
    )


def mcnemar_exact(gained: int, lost: int) -> float:
    """The two-sided p-value of ``gained`` and ``lost`` items: a binomial test with p = 1/2."""
    discordant, fewer = gained + lost, min(gained, lost)
    log_total = math.lgamma(discordant + 1) - discordant * math.log(2)
    tail = math.fsum(
        math.exp(log_total - math.lgamma(k + 1) - math.lgamma(discordant - k + 1))
        for k in range(fewer + 1)
    )
    return min(1.0, 2 * tail)


def sign_flip_test(differences: Values) -> float:
    """The two-sided p-value of the mean difference if each item's sign were a coin toss.

    All flips are enumerated for up to `EXACT_UP_TO` nonzero differences, `FLIPS` sampled (with a
    fixed seed, so that the result repeats) for up to `SAMPLED_UP_TO`.
    """
    moved = differences[differences != 0]
    if not moved.size:
        return 1.0
    # Sums that are equal but for rounding count as equal.
    observed = abs(float(moved.sum())) - 1e-12 * float(np.abs(moved).sum())
    if moved.size <= EXACT_UP_TO:
        codes = np.arange(2**moved.size)[:, None] >> np.arange(moved.size)
        return float((_flipped_sums(codes & 1, moved) >= observed).mean())
    if moved.size > SAMPLED_UP_TO:
        return math.erfc(max(0.0, observed) / math.sqrt(2 * float(moved @ moved)))
    rng = np.random.default_rng(SEED)
    extreme = 0
    for start in range(0, FLIPS, _CHUNK):
        shape = (min(_CHUNK, FLIPS - start), moved.size)
        bits = rng.integers(0, 2, shape, dtype=np.int8)
        extreme += int((_flipped_sums(bits, moved) >= observed).sum())
    # The observed signs are one of the flips, which keeps the p-value above 0.
    return (extreme + 1) / (FLIPS + 1)


def _flipped_sums(bits: npt.NDArray[np.integer], values: Values) -> Values:
    sums: Values = np.abs((2 * bits.astype(np.float64) - 1) @ values)
    return sums


def _adjusted_wald(differences: Values) -> tuple[float, float]:
    """The Wald interval with one further difference of 1 and one of -1."""
    items = differences.size + 2
    mean = float(differences.sum()) / items
    half = _Z95 * math.sqrt((float(differences @ differences) + 2) / items - mean**2)
    half /= math.sqrt(items)
    return max(-1.0, mean - half), min(1.0, mean + half)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (S. Holm, "A Simple Sequentially Rejective Multiple Test
    Procedure", Scandinavian Journal of Statistics 6 (1979)), in the given order."""
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = floor
    return adjusted
