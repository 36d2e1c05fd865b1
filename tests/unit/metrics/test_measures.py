"""Means of numbers by sub-task: hand-computed, with answers to one item as a cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.metrics.measures import MeasureMean, MeasureRules, Measures, mean_of_clusters
from services.metrics.repeated import bounded_mean

RULES = MeasureRules(winsorized=frozenset({"improvement"}), products={"fts": "valid"})


def test_means_count_only_the_answers_that_have_a_figure() -> None:
    measures = Measures()
    measures.add("edit", 0, {"valid": 1.0, "correct_rate": 1.0})
    measures.add("edit", 1, {"valid": 0.0})
    measures.add("edit", 2, {"valid": 1.0, "correct_rate": 0.0})
    means = measures.means()["edit"]
    assert means["valid"].mean == pytest.approx(2 / 3)
    assert means["valid"].samples == 3
    assert (means["correct_rate"].mean, means["correct_rate"].samples) == (0.5, 2)
    # Deviations of 1/2 each: sqrt(2 * 1/4 * 2/1) / 2.
    assert means["correct_rate"].stderr == pytest.approx(0.5)


def test_answers_to_one_item_are_a_cluster() -> None:
    measures = Measures()
    for item, value in [(0, 1.0), (0, 1.0), (1, 3.0), (1, 3.0)]:
        measures.add("count", item, {"absolute_error": value})
    mean = measures.means()["count"]["absolute_error"]
    # Cluster sums deviate by 2 each: sqrt((4 + 4) * 2/1) / 4.
    assert (mean.mean, mean.samples) == (2.0, 4)
    assert mean.stderr == pytest.approx(1.0)


def test_one_item_has_no_interval() -> None:
    measures = Measures()
    measures.add("count", 0, {"absolute_error": 1.0})
    assert measures.means()["count"]["absolute_error"] == MeasureMean(1.0, 1, None, None)


def test_improvements_are_winsorized_at_the_5th_and_95th_percentile() -> None:
    measures = Measures(RULES)
    for item, value in enumerate([1000.0, *range(20)]):
        measures.add("logp", item, {"improvement": value, "success": float(value > 0)})
    means = measures.means()["logp"]
    # Of 21 values the percentiles are the second and the last but one: 0 counts as 1, and 1000
    # as 19, so that the sum is 1 + (1 + ... + 19) + 19 = 210.
    assert (means["improvement"].mean, means["improvement"].samples) == (10.0, 21)
    assert means["success"].mean == pytest.approx(20 / 21)


def test_a_single_improvement_is_its_own_mean() -> None:
    measures = Measures(RULES)
    measures.add("logp", 0, {"improvement": 3.0})
    assert measures.means()["logp"]["improvement"] == MeasureMean(3.0, 1, None, None)


def test_similarity_of_molecules_carries_their_validity() -> None:
    measures = Measures(RULES)
    for item, (similarity, valid) in enumerate([(1.0, 1.0), (0.5, 1.0), (0.0, 0.0), (0.9, 1.0)]):
        measures.add("fs", item, {"fts": similarity, "valid": valid})
    found = measures.means()["fs"]
    assert found["valid"].mean == 0.75
    assert found["fts"].mean == pytest.approx(2.4 / 4 * 0.75)
    # The deviations of both, each times the mean of the other: those of the sums of the items.
    terms = [0.75 * (a - 0.6) + 0.6 * (b - 0.75) for a, b in [(1, 1), (0.5, 1), (0, 0), (0.9, 1)]]
    assert found["fts"].stderr == pytest.approx((sum(t * t for t in terms) / 16 * 4 / 3) ** 0.5)


CLUSTERS = st.dictionaries(
    st.integers(0, 20), st.lists(st.floats(0, 1, width=16), min_size=1, max_size=4), min_size=2
)


@given(CLUSTERS)
def test_the_interval_of_shares_is_that_of_an_accuracy(clusters: dict[int, list[float]]) -> None:
    found = mean_of_clusters(clusters)
    sizes = [len(each) for each in clusters.values()]
    expected = bounded_mean([sum(each) for each in clusters.values()], sizes, sum(sizes))

    assert found.ci95 == pytest.approx(expected.ci95, abs=1e-9)
    assert found.ci95 is not None
    low, high = found.ci95
    assert -1e-12 <= low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= high <= 1 + 1e-12
    assert high - low > 0.01, "it has a width where all are alike"


def test_scores_of_a_range_are_shares_of_the_way_through_it() -> None:
    best = {item: [10.0] for item in range(5)}
    shares = mean_of_clusters({item: [1.0] for item in range(5)})
    assert shares.ci95 is not None

    within = mean_of_clusters(best, (0.0, 10.0))
    beyond = mean_of_clusters(best, (0.0, 1.0))
    lowest = mean_of_clusters({item: [1.0] for item in range(5)}, (1.0, 10.0))

    assert within.mean == 10.0
    assert within.ci95 == pytest.approx((10 * shares.ci95[0], 10.0))
    assert beyond.ci95 == (10.0, 10.0), "scores that need not end there"
    assert lowest.ci95 is not None
    assert lowest.ci95[0] == 1.0
    assert lowest.ci95[1] > 1.0


def test_ratios_and_products_of_shares_have_such_intervals_and_counts_have_not() -> None:
    rules = MeasureRules(
        products={"fts": "valid"},
        ratios={"f1": (("right", "counted"),)},
        unbounded=frozenset({"error"}),
    )
    measures = Measures(rules)
    for item in range(5):
        given = {"fts": 1.0, "valid": 1.0, "right": 2.0, "counted": 2.0, "error": 1.0}
        measures.add("part", item, given)
    found = measures.means()["part"]

    wilson = bounded_mean([1.0] * 5, [1] * 5, 5).ci95
    assert [found[name].ci95 for name in ("fts", "valid", "f1")] == [wilson] * 3
    assert found["error"].ci95 == (1.0, 1.0)
