"""Durable rows of a prompt batch."""

from pathlib import Path
from typing import Any

import pytest

from services.evaluator.prompts.rows import PromptRow, PromptRows


def test_the_last_row_of_a_record_counts(tmp_path: Path) -> None:
    with PromptRows(tmp_path, 3) as rows:
        rows.append(PromptRow(index=2, status_code=500, error="broken"))
        rows.append(PromptRow(index=0, result="a", usage={"completion_tokens": 3}))
        rows.append(PromptRow(index=2, result="c", usage={"completion_tokens": 4}))

    with PromptRows(tmp_path, 3) as rows:
        assert (rows.answered, rows.failed, rows.completion_tokens) == (2, 0, 7)
        assert [row.result for row in rows.in_order()] == ["a", "c"]
        assert [rows.has_answer(index) for index in range(3)] == [True, False, True]


@pytest.mark.parametrize("tokens", ["5", None, 1.5, [1], {"n": 1}])
def test_a_usage_that_is_no_number_costs_nothing(tmp_path: Path, tokens: Any) -> None:
    with PromptRows(tmp_path, 1) as rows:
        rows.append(PromptRow(index=0, result="a", usage={"completion_tokens": tokens}))

    with PromptRows(tmp_path, 1) as rows:
        assert (rows.answered, rows.completion_tokens) == (1, 0)


def test_a_rejected_request_is_settled_and_a_broken_one_is_not(tmp_path: Path) -> None:
    with PromptRows(tmp_path, 2) as rows:
        rows.append(PromptRow(index=0, status_code=400, error="too long"))
        rows.append(PromptRow(index=1, status_code=503, error="busy"))

        assert [rows.is_settled(index) for index in range(2)] == [True, False]
