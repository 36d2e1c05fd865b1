"""Means of the use of tools, with intervals over items."""

import pytest

from services.contracts.evaluation.results import ToolUse
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.totals import ToolUseTotals


def row(index: int, calls: int, *, answer: str | None = "4") -> ResultRow:
    used = ToolUse(
        trajectory=f"traj-{index}-0",
        turns=calls + 1,
        calls=calls,
        failed_calls=1,
        malformed_calls=0,
    )
    correct = None if answer is None else True
    return ResultRow(
        index=index,
        gold=["4"],
        answer=answer,
        correct=correct,
        tools=used,
        finish_reason="answered",
    )


def test_means_are_over_samples_and_their_intervals_over_items() -> None:
    totals = ToolUseTotals()
    for each in (row(0, 1), row(0, 3), row(1, 5), row(2, 7, answer=None)):
        totals.add(each)

    found = totals.metrics()

    assert found is not None
    assert (found.calls, found.failed_calls, found.endings) == (9, 3, {"answered": 3})
    calls = found.per_sample["calls"]
    # Sums of deviations from 3: -2 and 2, over 3 samples; sqrt((4/9 + 4/9) * 2 / 1).
    assert (calls.mean, calls.samples) == (3.0, 3)
    assert calls.stderr == pytest.approx(4 / 3)
    assert calls.ci95 is not None
    assert calls.ci95[1] == pytest.approx(3 + 1.959964 * 4 / 3, abs=1e-5)
    assert found.per_sample["turns"].mean == 4.0


def test_rows_without_tools_have_none() -> None:
    totals = ToolUseTotals()
    totals.add(ResultRow(index=0, gold=["4"], answer="4", correct=True))
    assert totals.metrics() is None
