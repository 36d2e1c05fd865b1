"""The paired comparison that accepts or rejects a model."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from services.campaigns.run.records import Measurement
from services.campaigns.run.signals import StepFailed
from services.campaigns.steps import acceptance
from services.campaigns.steps.acceptance import compare_measurements
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.judging import AcceptancePolicy, AcceptBy
from services.contracts.campaigns.loops import Comparison
from services.metrics.missing_scores import PartialScore, Score, ScoredItems, score_of
from tests.support.campaigns.run import REQUEST, measured


def scores(right: int, of: int = 40) -> dict[int, float]:
    return {item: float(item < right) for item in range(of)}


def compare(
    candidate: Mapping[int, Score],
    best: Mapping[int, Score],
    *,
    higher_is_better: bool,
    policy: AcceptancePolicy = acceptance.BY_INTERVAL,
) -> Comparison:
    return acceptance.compare(
        ScoredItems(candidate),
        ScoredItems(best),
        higher_is_better=higher_is_better,
        policy=policy,
    )


def test_a_clear_gain_is_accepted_and_a_loss_is_not() -> None:
    gain = compare(scores(30), scores(10), higher_is_better=True)
    loss = compare(scores(10), scores(30), higher_is_better=True)

    assert gain.improves
    assert gain.difference == pytest.approx(0.5)
    assert gain.ci95[0] < 0.5 < gain.ci95[1]
    assert not loss.improves


def test_a_gain_that_may_be_chance_is_rejected() -> None:
    comparison = compare(scores(11), scores(10), higher_is_better=True)

    assert comparison.difference > 0
    assert not comparison.improves


def test_equal_scores_are_no_improvement() -> None:
    assert not compare(scores(10), scores(10), higher_is_better=True).improves


def test_lower_scores_improve_where_lower_is_better() -> None:
    comparison = compare(scores(10), scores(30), higher_is_better=False)

    assert comparison.improves
    assert comparison.difference == pytest.approx(0.5)


def test_scores_of_other_parts_are_not_compared() -> None:
    one = Measurement.model_validate({**measured("one", 1), "search": scores(1, of=20)})
    other = one.model_copy(update={"search": scores(1, of=21)})

    with pytest.raises(ValueError, match="same part"):
        compare_measurements(other, one, higher_is_better=True)


def test_items_that_the_infrastructure_lost_are_not_compared() -> None:
    """Equal answers to 100 items, of which six were lost of one model."""
    candidate = Measurement(model="ft", search=scores(80, of=100), final={}, wrong=[])
    search = {item: score for item, score in candidate.search.items() if item >= 6}
    base = candidate.model_copy(update={"search": search, "search_left_out": 6})

    for one, other in ((candidate, base), (base, candidate)):
        found = compare_measurements(one, other, higher_is_better=True)

        assert (found.samples, found.left_out, found.difference) == (94, 6, 0.0)
        assert not found.improves


def test_models_that_share_no_item_are_not_compared() -> None:
    with pytest.raises(StepFailed, match="no item of the search part"):
        compare({0: 1.0}, {1: 0.0}, higher_is_better=True)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_missing_score_counts_as_the_worst_of_both_models(higher_is_better: bool) -> None:
    best = {item: 0.5 + item / 100 for item in range(40)}
    silent = dict.fromkeys(best, PartialScore(given=0.0, missing=1.0))

    worse = compare(silent, best, higher_is_better=higher_is_better)
    better = compare(best, silent, higher_is_better=higher_is_better)

    assert worse.ci95[1] < 0
    assert worse.difference == pytest.approx(-better.difference)
    assert better.improves


def test_a_sample_without_a_score_costs_a_model_that_sample_and_not_its_item() -> None:
    """Twelve items of sixteen samples: one of each is wrong, or has no score."""
    wrong: dict[int, Score] = dict.fromkeys(range(12), score_of([1.0] * 15 + [0.0]))
    ungraded: dict[int, Score] = dict.fromkeys(range(12), score_of([1.0] * 15 + [None]))

    found = compare(wrong, ungraded, higher_is_better=True)

    assert (found.difference, found.gain_p_value, found.improves) == (0.0, 1.0, False)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_sample_without_a_score_is_the_worst_sample_and_not_the_worst_item(
    higher_is_better: bool,
) -> None:
    """As in `temper compare`: samples of -4 and 6 are hidden in items with a mean of 1."""
    whole = ScoredItems(dict.fromkeys(range(10), 1.0), worst=-4.0 if higher_is_better else 6.0)
    partial = ScoredItems({item: score_of([1.0, None]) for item in range(10)}, worst=1.0)

    found = acceptance.compare(partial, whole, higher_is_better=higher_is_better)

    assert found.difference == pytest.approx(-2.5)


def test_what_an_earlier_version_stored_of_several_samples_is_not_compared() -> None:
    """There, None stands for an item of which any sample had no score."""
    base = Measurement.model_validate(
        {**measured("base", 9), "search": {**measured("base", 9)["search"], "0": None}}
    )
    one = Measurement.model_validate(measured("ft", 9))

    several = compare_measurements(one, base.as_stored(16), higher_is_better=True)
    single = compare_measurements(one, base.as_stored(1), higher_is_better=True)

    assert (several.samples, several.left_out, several.difference) == (9, 1, 0.0)
    assert (single.samples, single.left_out) == (10, 0)
    assert single.difference == pytest.approx(0.1), "its only sample had none"


@pytest.mark.parametrize(
    ("by", "above", "accepted"),
    [
        ("interval", 0.0, True),
        ("interval", 0.4, False),
        ("mean", 0.4, True),
        ("mean", 0.5, False),
    ],
)
def test_the_users_policy_decides(by: str, above: float, accepted: bool) -> None:
    policy = AcceptancePolicy.model_validate({"by": by, "above": above})

    comparison = compare(scores(30), scores(10), higher_is_better=True, policy=policy)

    assert comparison.improves is accepted


def test_a_mean_accepts_what_may_be_chance() -> None:
    policy = AcceptancePolicy(by=AcceptBy.MEAN)

    assert compare(scores(11), scores(10), higher_is_better=True, policy=policy).improves
    assert not compare(scores(11), scores(10), higher_is_better=False, policy=policy).improves


def test_a_benchmark_of_which_less_is_better_sets_the_direction() -> None:
    distance = {"grader": {"type": "exact"}, "metric": "mean_score", "direction": "minimize"}
    asked = CreateCampaign.model_validate({**REQUEST, "benchmark": distance})
    assert not asked.higher_is_better
    # A stored request is read again.
    assert CreateCampaign.model_validate(asked.model_dump(mode="json")) == asked

    lower = compare(scores(10), scores(30), higher_is_better=asked.higher_is_better)
    assert lower.improves


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"metric": "mean_score", "direction": "minimize", "higher_is_better": True},
            "the benchmark says what is better",
        ),
        ({"metric": "majority"}, "benchmark.metric: majority is not that of single items"),
    ],
)
def test_a_benchmark_and_a_campaign_agree_on_what_is_better(
    fields: dict[str, object], why: str
) -> None:
    own = {name: value for name, value in fields.items() if name != "higher_is_better"}
    rest = {name: value for name, value in fields.items() if name == "higher_is_better"}
    with pytest.raises(ValidationError, match=why):
        CreateCampaign.model_validate(
            {**REQUEST, "benchmark": {"grader": {"type": "exact"}, **own}, **rest}
        )


def test_a_campaign_counts_right_answers_where_its_benchmark_does() -> None:
    def asked(**own: object) -> CreateCampaign:
        benchmark = {"grader": {"type": "token_f1"}, **own}
        return CreateCampaign.model_validate({**REQUEST, "benchmark": benchmark})

    assert asked(metric="accuracy").compares_correctness
    assert not asked(metric="mean_score").compares_correctness
    assert not asked().compares_correctness
