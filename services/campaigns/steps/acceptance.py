"""Decides whether a model beats the best one so far, by a paired comparison with an interval."""

from collections.abc import Mapping

from services.campaigns.run.records import Measurement
from services.contracts.campaigns.acceptance import AcceptancePolicy
from services.contracts.campaigns.loops import Comparison
from services.metrics.missing_scores import Score, compare_scores

BY_INTERVAL = AcceptancePolicy()


def compare_measurements(
    measured: Measurement,
    best: Measurement,
    *,
    higher_is_better: bool,
    policy: AcceptancePolicy = BY_INTERVAL,
) -> Comparison:
    """Compare a model with the best one on the search part; both may have several seeds.

    The comparison is clustered by item: samples and seeds of an item are averaged first.
    """
    compared = compare(
        measured.search,
        best.search,
        higher_is_better=higher_is_better,
        shares=measured.shares and best.shares,
        policy=policy,
    )
    seeds = {"seeds": len(measured.seeds) or 1, "best_seeds": len(best.seeds) or 1}
    return compared.model_copy(update=seeds)


def compare(
    scores: Mapping[int, Score],
    best: Mapping[int, Score],
    *,
    higher_is_better: bool,
    shares: bool = False,
    policy: AcceptancePolicy = BY_INTERVAL,
) -> Comparison:
    """Compare per-item scores with the best model's, as evaluations are compared.

    The model improves as far as the policy has it; by default, if the whole interval of the mean
    difference is above zero. An item without a score counts as the worst score of both models.
    ``shares`` says that all scores are shares of samples which scored 0 or 1.
    """
    if not scores or scores.keys() != best.keys():
        raise ValueError("the scores are not those of the same items")
    items = sorted(scores)
    before, after = [best[item] for item in items], [scores[item] for item in items]
    found = compare_scores(before, after, higher_is_better=higher_is_better, shares=shares)
    return Comparison(
        samples=len(items),
        difference=found.difference,
        ci95=found.ci95,
        p_value=found.p_value,
        exact_p_value=found.exact_p_value,
        improves=policy.accepts(found.difference, found.ci95),
    )
