"""Acceptance: whether a model is better than the best one so far, by its measurements alone.

A model beats the best one so far by a paired comparison with an interval. Many attempts are
compared, all with one measurement of the best model: of twenty equal ones, a fifth of all campaigns
would accept some. They were lucky with their samples, or with the items, of which the search part
is itself a sample, and fresh samples of the same items remove only the former. So the level of the
test is divided among the loops (C. E. Bonferroni), which holds however alike the comparisons are.
Where answers are sampled, a model that seems better gets a second look first: both are sampled
again with new seeds, and the test is one over all samples, whose noise is smaller.
"""

from collections.abc import Sequence

from services.campaigns.data.benchmark import SEARCH, Parts
from services.campaigns.run.history import next_verdict
from services.campaigns.run.records import Measurement
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.steps.part import (
    PartEvaluation,
    are_shares,
    item_means,
    item_scores,
    worst_sample,
)
from services.contracts.campaigns.judging import MAX_SEEDS, AcceptancePolicy, AcceptBy
from services.contracts.campaigns.loops import Comparison, Failure
from services.metrics.missing_scores import (
    ScoredItems,
    compare_scores,
    gain_of_scores,
    worst_given,
)

BY_INTERVAL = AcceptancePolicy()


def compare_measurements(
    measured: Measurement,
    best: Measurement,
    *,
    higher_is_better: bool,
    policy: AcceptancePolicy = BY_INTERVAL,
) -> Comparison:
    """Compare a model with the best one on the search part; both may have several seeds.

    The comparison is clustered by item: samples and seeds of an item are averaged first. Raises
    `StepFailed` if no item is comparable.
    """
    items = _items(measured)
    if items != _items(best):
        raise ValueError(f"{items} and {_items(best)} items are not those of the same part")
    compared = compare(
        measured.on_search,
        best.on_search,
        higher_is_better=higher_is_better,
        shares=measured.shares and best.shares,
        policy=policy,
    )
    update = {
        "seeds": len(measured.seeds) or 1,
        "best_seeds": len(best.seeds) or 1,
        "left_out": items - compared.samples,
    }
    return compared.model_copy(update=update)


def _items(measured: Measurement) -> int:
    return len(measured.search) + measured.search_left_out


def compare(
    scores: ScoredItems,
    best: ScoredItems,
    *,
    higher_is_better: bool,
    shares: bool = False,
    policy: AcceptancePolicy = BY_INTERVAL,
) -> Comparison:
    """Compare per-item scores with the best model's, as evaluations are compared.

    The model improves as far as the policy has it; by default, if the whole interval of the mean
    difference is above zero. A sample without a score counts as the worst one of both models; an
    item that is absent from either, since the infrastructure lost it, is not compared, nor is one
    of which an earlier version did not store how many samples have a score. ``shares`` says that
    all scores are shares of samples which scored 0 or 1. Raises `StepFailed` if no item is left.
    """
    items = sorted(scores.comparable & best.comparable)
    if not items:
        message = "no item of the search part has samples of both models that can be compared"
        raise StepFailed(Failure.ENVIRONMENT, message)
    found = compare_scores(best, scores, items, higher_is_better=higher_is_better, shares=shares)
    return Comparison(
        samples=len(items),
        difference=found.difference,
        ci95=found.ci95,
        p_value=found.p_value,
        exact_p_value=found.exact_p_value,
        gain_p_value=gain_of_scores(best, scores, items, higher_is_better=higher_is_better),
        improves=policy.accepts(found.difference, found.ci95),
    )


FALSE_CAMPAIGNS = 0.05
"""Share of campaigns without any gain that may accept a model."""
FIRST_VERDICTS = 20
FRESH = 1_000
"""Sampling seeds from here on are those of second looks."""


def confirmed(
    run: CampaignRun,
    first: Comparison,
    parts: Parts,
    measured: Measurement,
    best: Measurement,
) -> Comparison:
    """The comparison with the verdict at the level of this one, after a second look where answers
    are sampled; raises `Waiting`, `StepFailed` and `BudgetSpent`."""
    request = run.request
    if not first.improves or request.acceptance.by is not AcceptBy.INTERVAL:
        return first
    level = level_of(request.budget.loops, next_verdict(run))
    if request.sampling.temperature == 0:
        return at_level(first, level)
    begun = {
        name: _begin(run, name, each, parts)
        for name, each in (("candidate", measured), ("best", best))
    }
    candidate, other = (
        _pooled(run, each, _measured_again(run, each, begun[name]))
        for name, each in (("candidate", measured), ("best", best))
    )
    second = compare_measurements(
        candidate,
        other,
        higher_is_better=request.higher_is_better,
        policy=request.acceptance,
    )
    second = at_level(second, level)
    return first.model_copy(update={"improves": second.improves, "second_look": second})


def at_level(comparison: Comparison, level: float) -> Comparison:
    """The comparison, which improves only if its test tells a gain from chance at this level."""
    p_value = comparison.gain_p_value
    improves = comparison.improves and p_value is not None and p_value <= level
    return comparison.model_copy(update={"level": level, "improves": improves})


def level_of(loops: int, order: int) -> float:
    """The one-sided level of the ``order``-th verdict of a campaign of at most so many loops; those
    of a campaign add up to `FALSE_CAMPAIGNS` at most.

    Campaigns that other limits end name far more loops than they have: half of the share is
    for the first verdicts, and each half of the rest for twice as many.
    """
    if loops <= FIRST_VERDICTS:
        return FALSE_CAMPAIGNS / loops
    share, number, last = FALSE_CAMPAIGNS / 2, FIRST_VERDICTS, FIRST_VERDICTS
    while order > last:
        share, number = share / 2, number * 2
        last += number
    return share / number


def measure_noise(run: CampaignRun, parts: Parts, base: Measurement) -> Measurement:
    """The base model's measurement, with how it differs from another one of the same model: gains
    up to there are noise. Greedy answers have none."""
    if run.request.sampling.temperature == 0:
        return base
    again = _measured_again(run, base, _begin(run, "noise", base, parts))
    try:
        noise = compare_measurements(
            again,
            base,
            higher_is_better=run.request.higher_is_better,
            policy=run.request.acceptance,
        )
    except StepFailed as failed:
        run.note(f"The noise of the base model is unknown: {failed.message}")
        return base
    floor = (noise.ci95[1] - noise.ci95[0]) / 2
    run.note(
        f"Two measurements of the base model differ by {noise.difference:+.4f}: gains up to about "
        f"{floor:.4f} are noise"
    )
    return base.model_copy(update={"noise_floor": floor})


def _begin(
    run: CampaignRun, name: str, measured: Measurement, parts: Parts
) -> Sequence[PartEvaluation]:
    """Create the evaluations of a model's seeds on the search part once."""
    models = [each.model for each in measured.seeds] or [measured.model]
    offset = 0 if name == "candidate" else MAX_SEEDS
    first = FRESH + 2 * MAX_SEEDS * run.loop + offset
    found = [
        PartEvaluation(run, f"{name}.{number}", SEARCH, model, parts.search, first + number)
        for number, model in enumerate(models)
    ]
    for each in found:
        each.begin()
    return found


def _measured_again(
    run: CampaignRun, measured: Measurement, evaluations: Sequence[PartEvaluation]
) -> Measurement:
    """The measurement with the scores of fresh samples alone on the search part."""
    rows = [each.rows() for each in evaluations]
    scores = item_means([item_scores(each, run.request.pass_k) for each in rows])
    higher = run.request.higher_is_better
    worst = worst_given(
        (worst_sample(each, higher_is_better=higher) for each in rows), higher_is_better=higher
    )
    shares = measured.shares and all(map(are_shares, rows))
    return _with_search(measured, ScoredItems(scores, worst), shares=shares)


def _pooled(run: CampaignRun, first: Measurement, again: Measurement) -> Measurement:
    """The measurement over the samples of both, of which there are as many."""
    scores = item_means([first.search, again.search])
    both = (first.search_worst, again.search_worst)
    worst = worst_given(both, higher_is_better=run.request.higher_is_better)
    return _with_search(first, ScoredItems(scores, worst), shares=again.shares)


def _with_search(measured: Measurement, found: ScoredItems, *, shares: bool) -> Measurement:
    update = {
        "search": found.scores,
        "search_worst": found.worst,
        "search_left_out": _items(measured) - len(found.scores),
        "shares": shares,
    }
    return measured.model_copy(update=update)
