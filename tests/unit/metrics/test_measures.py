"""Means of numbers by sub-task: hand-computed, with answers to one item as a cluster."""

import pytest

from services.metrics.measures import MeasureMean, Measures


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
