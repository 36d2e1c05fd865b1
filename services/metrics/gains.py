"""Whether a candidate's mean is higher, tested at levels far below 5 %, as many tests need.

The items are a sample: the null hypothesis is that both means over all such items are equal, so
that luck with the items counts as much as luck with the samples of each.
"""

import math
from collections.abc import Sequence

import numpy as np

from services.metrics.paired import Values, mcnemar_exact, student_tails


def gain_p_value(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """The one-sided p-value of a higher mean of the candidate, paired by item; needs an item.

    McNemar's exact one where all values are 0 or 1. Otherwise the larger one of Student's and of
    Hall's, which corrects for skewness: far out in the tails, Student's rejects several times too
    often where a few items lose much and many gain little.
    """
    before, after = np.asarray(baseline, np.float64), np.asarray(candidate, np.float64)
    differences = after - before
    if float(differences.mean()) <= 0.0:
        return 1.0
    if np.isin(before, (0.0, 1.0)).all() and np.isin(after, (0.0, 1.0)).all():
        gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
        return mcnemar_exact(gained, lost) / 2
    if float(np.ptp(differences)) <= 1e-12 * float(np.abs(differences).max()):
        return float(0.5**differences.size)  # their spread is unknown: each may toss a coin
    return max(_upper_tail(_student(differences), differences), _hall(differences))


def _student(differences: Values) -> float:
    return float(differences.mean() / differences.std(ddof=1)) * math.sqrt(differences.size)


def _hall(differences: Values) -> float:
    """The p-value of Student's statistic after the monotone cubic transformation of P. Hall, "On
    the Removal of Skewness by Transformation", Journal of the Royal Statistical Society B 54
    (1992)."""
    items, spread = differences.size, float(differences.std())
    ratio = float(differences.mean()) / spread
    skewness = float((((differences - differences.mean()) / spread) ** 3).mean())
    corrected = (
        ratio + skewness * ratio**2 / 3 + skewness**2 * ratio**3 / 27 + skewness / (6 * items)
    )
    return _upper_tail(corrected * math.sqrt(items), differences)


def _upper_tail(t: float, differences: Values) -> float:
    tails = student_tails(t, differences.size - 1)
    return tails / 2 if t > 0 else 1.0 - tails / 2
