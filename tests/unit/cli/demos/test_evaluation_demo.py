"""The data and the verdict of ``temper demo evaluate``."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples.demo_2_evaluation.data import BENCHMARK, ITEMS, EvaluationData, write_data
from examples.demo_2_evaluation.run import is_better
from services.contracts.evaluation.comparisons import EvaluationComparison, PairedComparison
from services.evaluator.evaluation.samples import gold_check, read_samples


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> EvaluationData:
    return write_data(tmp_path_factory.mktemp("evaluation"))


def compared(low: float, high: float) -> EvaluationComparison:
    found = PairedComparison(
        candidate="eval-2",
        items=ITEMS,
        left_out=0,
        baseline_errors=0,
        candidate_errors=0,
        baseline_mean=0.1,
        candidate_mean=0.1 + (low + high) / 2,
        difference=(low + high) / 2,
        stderr=0.1,
        ci95=(low, high),
        test="paired_permutation",
        p_value=0.01,
        p_adjusted=0.01,
        gained=2,
        lost=0,
        gained_items=[0, 1],
        lost_items=[],
    )
    return EvaluationComparison(baseline="eval-1", value="correct", comparisons=[found])


def test_every_item_of_the_benchmark_asks_for_a_sum_and_has_its_gold(data: EvaluationData) -> None:
    samples = list(read_samples(data.benchmark, gold_check(BENCHMARK.grader), BENCHMARK))

    assert len(samples) == ITEMS
    for sample in samples:
        question = str(sample.messages[0]["content"])
        terms = question.removeprefix("What is ").removesuffix("?").split(" + ")
        assert sample.gold == (str(sum(map(int, terms))),)


def test_no_benchmark_item_is_in_the_training_data(data: EvaluationData) -> None:
    taught = {row["messages"][0]["content"] for row in _rows(data.training)}

    assert taught.isdisjoint(row["item"]["text"] for row in _rows(data.benchmark))


def test_data_is_deterministic(data: EvaluationData, tmp_path: Path) -> None:
    again = write_data(tmp_path)

    assert again.training.read_bytes() == data.training.read_bytes()
    assert again.benchmark.read_bytes() == data.benchmark.read_bytes()


def test_a_model_is_better_when_the_interval_of_the_difference_lies_above_zero() -> None:
    assert is_better(compared(0.1, 0.3))
    assert not is_better(compared(-0.1, 0.3))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
