"""Means of numbers by sub-task: hand-computed, with answers to one item as a cluster."""

import pytest

from services.metrics.measures import MeasureMean, MeasureRules, Measures

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
