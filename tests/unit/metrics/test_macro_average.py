"""The mean over the benchmarks of an evaluation: its numbers by hand, and when there is none."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.evaluation.evaluations import BenchmarkOutcome
from services.contracts.evaluation.results import ItemEstimate, MacroAverage
from services.metrics.macro_average import macro_average
from services.metrics.main_metric import mean_of_independent
from services.metrics.repeated import bounded_mean
from tests.support.evaluation.evaluation_view import graded_by, metrics_of

METRIC = {"name": "errors", "mean": 0.5, "stderr": 0.1, "ci95": [0.3, 0.7]}


def outcome(
    name: str, accuracy: float, grader: dict[str, Any] | None = None, **fields: Any
) -> BenchmarkOutcome:
    own: dict[str, Any] = {
        key: fields.pop(key)
        for key in (
            *("stderr", "ci95", "measures", "subtasks", "grader_metric"),
            *("errors", "unanswered"),
        )
        if key in fields
    }
    grader = grader or {"type": "numeric"}
    return BenchmarkOutcome.model_validate(
        {
            **{"name": name, "file": f"file-{name}", "grader": grader},
            **{"sampling": {}, "metrics": graded_by(grader, {**metrics_of(accuracy), **own})},
            **fields,
        }
    )


def found(*outcomes: BenchmarkOutcome) -> MacroAverage:
    mean = macro_average(outcomes)
    assert mean is not None
    return mean


def test_the_mean_of_two_benchmarks_by_hand() -> None:
    mean = found(
        outcome("a", 0.5, stderr=0.03, ci95=[0.44, 0.56]),
        outcome("b", 0.9, stderr=0.04, ci95=[0.82, 0.945]),
    )
    assert mean.metrics == {"a": "accuracy", "b": "accuracy"}
    assert mean.mean is not None
    assert mean.mean.mean == pytest.approx(0.7)
    assert mean.mean.stderr == pytest.approx(0.025)  # sqrt(0.0009 + 0.0016) / 2
    # sqrt(0.06^2 + 0.08^2) / 2 below, sqrt(0.06^2 + 0.045^2) / 2 above
    assert mean.mean.ci95 == pytest.approx((0.65, 0.7375))


def test_a_benchmark_counts_as_much_as_another_whatever_its_size() -> None:
    large = outcome("large", 0.2)
    large.metrics = large.metrics and large.metrics.model_copy(update={"items": 10_000})
    mean = found(large, outcome("small", 0.8)).mean
    assert mean is not None
    assert mean.mean == pytest.approx(0.5)


def test_perfect_benchmarks_still_have_an_interval() -> None:
    perfect = bounded_mean([1.0] * 30, [1] * 30, 30)
    one = ItemEstimate(mean=perfect.mean, stderr=perfect.stderr, ci95=perfect.ci95)
    mean = mean_of_independent([one, one])
    assert (mean.mean, mean.stderr, mean.ci95[1]) == (1.0, 0.0, 1.0)
    assert mean.ci95[0] == pytest.approx(1 - (1 - perfect.ci95[0]) / math.sqrt(2))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=2, max_size=8))
def test_an_interval_of_shares_stays_between_0_and_1_and_holds_the_mean(
    counts: list[tuple[int, int]],
) -> None:
    estimates = []
    for correct, items in counts:
        values = [float(item < correct) for item in range(items)]
        each = bounded_mean(values, [1] * items, items)
        estimates.append(ItemEstimate(mean=each.mean, stderr=each.stderr, ci95=each.ci95))
    mean = mean_of_independent(estimates)
    low, high = mean.ci95
    assert -1e-12 <= low <= mean.mean <= high <= 1 + 1e-12


def test_tasks_of_panorama_count_by_their_published_score() -> None:
    scores = {"mean": 0.6, "samples": 10, "stderr": 0.03, "ci95": [0.54, 0.66]}
    task = {"type": "panorama", "task": "noc4pc"}
    patents = outcome("noc", 0.1, task, measures={"noc4pc": {"macro_f1": scores}})
    mean = found(patents, outcome("b", 0.8, stderr=0.04))
    assert mean.metrics == {"noc": "macro_f1", "b": "accuracy"}
    assert mean.mean is not None
    assert mean.mean.mean == pytest.approx(0.7)


def test_prompts_without_an_answer_count_as_0_in_published_scores() -> None:
    scores = {"mean": 0.6, "samples": 5, "stderr": 0.03, "ci95": [0.54, 0.66]}
    task = {"type": "panorama", "task": "noc4pc"}
    given = {"measures": {"noc4pc": {"macro_f1": scores}}, "errors": 5}
    silent = outcome("noc", 0.1, task, unanswered=5, **given)
    mean = found(silent, outcome("b", 0.8, stderr=0.0, ci95=[0.8, 0.8])).mean
    assert mean is not None
    assert mean.mean == pytest.approx((0.3 + 0.8) / 2)
    # The standard error of 0.6 times a share of 0.5 of 10 samples, halved by the mean of two.
    assert mean.stderr == pytest.approx(math.hypot(0.5 * 0.03, 0.6 * (0.25 / 10) ** 0.5) / 2)

    unreadable_rows = found(outcome("noc", 0.1, task, **given), outcome("b", 0.8)).mean
    assert unreadable_rows is not None
    assert unreadable_rows.mean == pytest.approx(0.7)


def share(mean: float) -> dict[str, Any]:
    return {"mean": mean, "samples": 10, "stderr": 0.03, "ci95": [mean - 0.06, mean + 0.06]}


def test_molecules_count_by_the_published_score_of_each_subtask() -> None:
    chemistry = {"type": "chemistry", "tasks": ["mol_edit"]}
    edits = {
        "mol_edit/add": {"correct_rate": share(0.5), "valid": share(1.0)},
        "mol_edit/sub": {"correct_rate": share(0.3), "valid": share(1.0)},
    }
    mean = found(outcome("edit", 0.1, chemistry, measures=edits), outcome("b", 0.8))
    assert mean.metrics == {"edit": "correct_rate", "b": "accuracy"}
    assert mean.mean is not None
    assert mean.mean.mean == pytest.approx(0.6)  # of 0.4 and 0.8

    reactions = {
        "reaction/fs": {"exact_match": share(0.2), "bleu": share(0.9)},
        "reaction/mechsel": {"accuracy": share(0.6)},
    }
    mean = found(outcome("r", 0.1, chemistry, measures=reactions), outcome("b", 0.8))
    assert mean.metrics["r"] == "accuracy and exact_match"
    assert mean.mean is not None
    assert mean.mean.mean == pytest.approx(0.6)

    counts = {"mol_und/fg_count": {"absolute_error": share(0.5) | {"lower_is_better": True}}}
    mean = found(outcome("und", 0.1, chemistry, measures=counts), outcome("b", 0.8))
    assert (mean.mean, mean.missing) == (
        None,
        "und: its sub-tasks have errors and shares, which have no mean: absolute_error",
    )


def test_a_subtask_without_the_published_score_counts_as_0() -> None:
    chemistry = {"type": "chemistry", "tasks": ["mol_edit"]}
    # No answer to "delete" is a molecule, and no answer to "sub" is there.
    edits = {
        "mol_edit/add": {"correct_rate": share(1.0), "valid": share(1.0)},
        "mol_edit/delete": {"valid": share(0.0)},
    }
    silent = {"samples": 80, "errors": 80, "unanswered": 80}
    graded = {"samples": 10, "errors": 0, "unanswered": 0}
    subtasks = {"mol_edit/add": graded, "mol_edit/delete": graded, "mol_edit/sub": silent}
    asked = outcome("edit", 0.1, chemistry, measures=edits, subtasks=subtasks)
    assert asked.metrics is not None
    assert asked.metrics.grader_metric is not None
    assert asked.metrics.grader_metric.mean == pytest.approx(1 / 3)
    assert asked.metrics.grader_metric.ci95 is not None
    assert asked.metrics.grader_metric.ci95[1] > 1 / 3
    old = outcome("edit", 0.1, chemistry, measures=edits)
    assert old.metrics is not None
    assert old.metrics.grader_metric is not None
    assert old.metrics.grader_metric.mean == pytest.approx(1 / 2)

    # Half of a small sub-task has no answer; a property without an oracle has no part.
    subtasks = {
        "mol_edit/add": {"samples": 20, "errors": 10, "unanswered": 10},
        "mol_edit/sub": {"samples": 80, "errors": 0, "unanswered": 0},
        "mol_opt/drd2": {"samples": 30, "errors": 30, "unanswered": 0},
    }
    edits = {part: {"correct_rate": share(1.0)} for part in ("mol_edit/add", "mol_edit/sub")}
    mean = found(
        outcome("edit", 0.1, chemistry, measures=edits, subtasks=subtasks), outcome("b", 0.8)
    )
    assert mean.mean is not None
    assert mean.mean.mean == pytest.approx((0.75 + 0.8) / 2)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            outcome("molecules", 0.5, {"type": "chemistry", "tasks": ["mol_und"]}),
            "molecules: a sub-task has too few graded answers for the error of its score",
        ),
        (
            outcome(
                "short",
                0.5,
                grader_metric={**METRIC, "name": "characters", "share": False},
            ),
            "short: it is not a share of answers",
        ),
        (
            outcome("errors", 0.5, grader_metric={**METRIC, "direction": "minimize"}),
            "errors: lower scores are better",
        ),
        (outcome("same", 0.5, file="file-a"), "a and same have the same items"),
        (
            outcome("patents", 0.5, {"type": "panorama", "task": "pi4pc"}),
            "patents has too few graded answers for the error of item_score",
        ),
    ],
)
def test_without_a_common_scale_or_own_items_there_is_a_reason(
    other: BenchmarkOutcome, reason: str
) -> None:
    mean = found(outcome("a", 0.5), other)
    assert (mean.mean, mean.missing) == (None, reason)


def test_both_parts_of_a_split_are_independent() -> None:
    parts = [outcome(name, 0.5, file="file-a", split=name) for name in ("search", "final")]
    assert found(*parts).missing is None


def test_one_benchmark_or_one_without_a_result_has_no_mean_yet() -> None:
    assert macro_average([outcome("a", 0.5)]) is None
    waiting = outcome("b", 0.5).model_copy(update={"metrics": None})
    assert macro_average([outcome("a", 0.5), waiting]) is None
