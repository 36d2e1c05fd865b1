"""Agreement of two raters, such as a judge and people, on the labels of the same items."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

Z95 = 1.96


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two raters agree on ``items`` labels.

    ``observed`` is the share of equal labels, ``expected`` the share that raters with these label
    frequencies reach by chance. ``kappa`` is (observed - expected) / (1 - expected) of J. Cohen,
    "A Coefficient of Agreement for Nominal Scales" (1960), with the large-sample standard error
    of J. L. Fleiss, J. Cohen and B. S. Everitt, "Large Sample Standard Errors of Kappa and
    Weighted Kappa" (1969). All three are null where both raters give one and the same label to
    everything: there is no disagreement that chance could explain. ``pairs`` counts the items by
    both labels, the most frequent first.
    """

    items: int
    observed: float
    expected: float
    kappa: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    pairs: dict[tuple[str, str], int]


def agreement(rated: Iterable[tuple[str, str]]) -> Agreement:
    """Compare the labels of two raters; raises `ValueError` without items."""
    pairs = Counter(rated)
    items = pairs.total()
    if not items:
        raise ValueError("there are no items with two labels")
    first: Counter[str] = Counter()
    second: Counter[str] = Counter()
    for (one, other), count in pairs.items():
        first[one] += count
        second[other] += count
    observed = sum(count for (one, other), count in pairs.items() if one == other) / items
    by_chance = sum(count * second[label] for label, count in first.items())
    expected = by_chance / items**2
    ordered = dict(sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0])))
    if by_chance == items**2:
        return Agreement(items, observed, expected, None, None, None, ordered)
    kappa = (observed - expected) / (1 - expected)
    stderr = _stderr(pairs, first, second, expected, kappa)
    low, high = max(-1.0, kappa - Z95 * stderr), min(1.0, kappa + Z95 * stderr)
    return Agreement(items, observed, expected, kappa, stderr, (low, high), ordered)


def _stderr(
    pairs: Counter[tuple[str, str]],
    first: Counter[str],
    second: Counter[str],
    expected: float,
    kappa: float,
) -> float:
    items = pairs.total()
    chance = 1 - kappa
    spread = 0.0
    for (one, other), count in pairs.items():
        if one == other:
            term = 1 - (first[one] + second[one]) / items * chance
        else:
            term = (second[one] + first[other]) / items * chance
        spread += count / items * term**2
    variance = spread - (kappa - expected * chance) ** 2
    return math.sqrt(max(0.0, variance) / items) / (1 - expected)
