"""Progress reports during generation, and elapsed time accumulated over attempts."""

import json
from pathlib import Path

import pytest

from services.contracts.failures import InfrastructureCause, LeftOut
from services.core.process.reporter import METRICS, REPORTS, Reporter
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.totals import RunningTotals, SuiteTotals
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts


def answered(index: int, benchmark: str | None = None) -> ResultRow:
    row = {"index": index, "gold": ["1"], "answer": "1", "completion_tokens": 4}
    return ResultRow.model_validate({**row, "benchmark": benchmark, "correct": True})


def last_report(folder: Path, kind: str) -> dict[str, object]:
    reports = map(json.loads, (folder / REPORTS).read_text().splitlines())
    return [dict(report) for report in reports if report["type"] == kind][-1]


def test_progress_includes_samples_of_earlier_attempts(tmp_path: Path) -> None:
    totals = SuiteTotals({None: RunningTotals()})
    totals.add(answered(0))
    progress = GenerationProgress(Reporter(tmp_path), totals, total=4)
    totals.add(answered(1))
    progress.finish()
    report = last_report(tmp_path, "progress")
    assert (report["step"], report["total_steps"]) == (2, 4)
    metrics = last_report(tmp_path, "metrics")["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["accuracy"] == 1.0
    rates = metrics["tokens_per_second"], metrics["samples_per_second"]
    assert rates[0] == pytest.approx(4 * rates[1]), "earlier attempts do not count"


def test_benchmarks_share_the_progress_and_the_time_by_tokens(tmp_path: Path) -> None:
    totals = SuiteTotals({"a": RunningTotals(), "b": RunningTotals()}, seconds=8.0)
    progress = GenerationProgress(Reporter(tmp_path), totals, total=5)
    for index in range(3):
        totals.add(answered(index, "a"))
    totals.add(answered(0, "b"))

    found = totals.metrics()
    assert {name: each.generation_seconds for name, each in found.items()} == {"a": 6.0, "b": 2.0}
    assert {each.tokens_per_second for each in found.values()} == {2.0}

    totals.add(ResultRow(benchmark="b", index=1, gold=["1"], answer=None, correct=None))
    progress.finish()
    report = last_report(tmp_path, "progress")
    assert (report["step"], report["total_steps"]) == (5, 5)
    metrics = last_report(tmp_path, "metrics")["metrics"]
    assert isinstance(metrics, dict)
    told = {name: metrics[name] for name in ("accuracy/a", "accuracy/b", "errors")}
    assert told == {"accuracy/a": 1.0, "accuracy/b": 0.5, "errors": 1}


def test_samples_that_are_all_left_out_have_no_accuracy(tmp_path: Path) -> None:
    totals = SuiteTotals({None: RunningTotals()})
    lost = LeftOut(source="grader", cause=InfrastructureCause.TIMED_OUT, message="no answer")
    totals.add(ResultRow(index=0, gold=["1"], answer=None, correct=None, left_out=lost))

    GenerationProgress(Reporter(tmp_path), totals, total=1).finish()

    metrics = last_report(tmp_path, "metrics")["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["samples_left_out"] == 1
    assert "accuracy" not in metrics


def test_elapsed_time_accumulates_over_attempts(tmp_path: Path) -> None:
    assert seconds_of_earlier_attempts(tmp_path) == 0.0
    for _attempt in range(3):
        before = seconds_of_earlier_attempts(tmp_path)
        totals = SuiteTotals({None: RunningTotals()}, seconds=before)
        GenerationProgress(Reporter(tmp_path), totals, total=1).finish()
        assert totals.seconds > before
        assert seconds_of_earlier_attempts(tmp_path) == totals.seconds


def test_a_torn_metrics_line_is_skipped(tmp_path: Path) -> None:
    lines = '{"generation_seconds": 2.5}\n{"loss": 1}\n[]\n{"generation_sec'
    (tmp_path / METRICS).write_text(lines)
    assert seconds_of_earlier_attempts(tmp_path) == 2.5


def test_metrics_count_missing_answers_as_wrong() -> None:
    totals = RunningTotals(seconds=2.0)
    for index in range(3):
        totals.add(answered(index))
    totals.add(ResultRow(index=3, gold=["1"], answer=None, correct=None))
    metrics = totals.metrics()
    assert (metrics.samples, metrics.correct, metrics.errors) == (4, 3, 1)
    assert (metrics.accuracy, metrics.tokens_per_second) == (0.75, 6.0)
