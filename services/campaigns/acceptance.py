"""Whether a model is better than the best one so far: a paired comparison with its interval."""

from collections.abc import Mapping

from services.contracts.campaigns import Comparison
from services.metrics.missing_scores import Score, compare_scores


def compare(
    scores: Mapping[int, Score], best: Mapping[int, Score], *, higher_is_better: bool
) -> Comparison:
    """Compare scores by item with those of the best model, as evaluations are compared.

    The model improves if the whole interval of the mean difference is above zero. An item without
    a score counts as the worst score of both models.
    """
    if not scores or scores.keys() != best.keys():
        raise ValueError("the scores are not those of the same items")
    items = sorted(scores)
    before, after = [best[item] for item in items], [scores[item] for item in items]
    found = compare_scores(before, after, higher_is_better=higher_is_better)
    return Comparison(
        samples=len(items),
        difference=found.difference,
        ci95=found.ci95,
        p_value=found.p_value,
        improves=found.ci95[0] > 0,
    )
