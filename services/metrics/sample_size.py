"""How many items a paired comparison needs, before it is run.

Apart from `services.metrics.paired` so that the command line plans without numpy.
"""

import math
from statistics import NormalDist


def items_needed(
    difference: float, discordant: float, power: float = 0.8, alpha: float = 0.05
) -> int:
    """Items with which McNemar's test finds a ``difference`` in accuracy.

    ``discordant`` is the share of items that one model gets right and the other wrong; ``power``
    the probability of finding the difference at the two-sided level ``alpha``. After R. J. Connor,
    "Sample Size for Testing Differences in Proportions for the Paired-Sample Design", Biometrics 43
    (1987). Raises ValueError for what is impossible.
    """
    if not 0 < abs(difference) <= discordant <= 1:
        raise ValueError("the difference must be nonzero and at most the share of discordant items")
    if not (0 < alpha < 1 and 0 < power < 1):
        raise ValueError("power and alpha must be between 0 and 1")
    level, wanted = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    spread = level * math.sqrt(discordant) + wanted * math.sqrt(discordant - difference**2)
    return math.ceil((spread / difference) ** 2)


def independent_discordance(accuracy: float, difference: float) -> float:
    """The share of discordant items if two models, ``difference`` apart, erred independently.

    Models that are alike err alike: theirs is smaller, so this asks for more items than needed.
    """
    other = accuracy + difference
    if not (0 <= accuracy <= 1 and 0 <= other <= 1):
        raise ValueError(f"accuracies are within [0, 1], not {accuracy:g} and {other:g}")
    return accuracy * (1 - other) + other * (1 - accuracy)
