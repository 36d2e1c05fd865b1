"""Whether a model is better than the best one so far: a paired comparison with its interval."""

from collections.abc import Mapping

from services.contracts.campaigns import Comparison
from services.metrics import paired


def compare(
    scores: Mapping[int, float], best: Mapping[int, float], *, higher_is_better: bool
) -> Comparison:
    """Compare scores by item with those of the best model, as evaluations are compared.

    The model improves if the whole interval of the mean difference is above zero.
    """
    if not scores or scores.keys() != best.keys():
        raise ValueError("the scores are not those of the same items")
    items = sorted(scores)
    before, after = [best[item] for item in items], [scores[item] for item in items]
    found = paired.compare(before, after) if higher_is_better else paired.compare(after, before)
    return Comparison(
        samples=len(items),
        difference=found.difference,
        ci95=found.ci95,
        p_value=found.p_value,
        improves=found.ci95[0] > 0,
    )
