"""Evaluations that have succeeded, for tests of what shows and compares them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from services.contracts.base import JsonObject
from services.contracts.jobs import JobStatus
from services.contracts.rewards.graders import ToolCallsGrader
from services.core.db.engine import Database
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.tool_call_totals import ToolCallTotals
from services.evaluator.evaluation.totals import RunningTotals
from services.jobs.store import get_job, move_job

Calls = list[dict[str, object]]
LOWER_SCORE = {
    "question": "prompt",
    "answer": "gold",
    "grader": {"type": "exact"},
    "metric": "mean_score",
    "direction": "minimize",
}
"""A benchmark whose scores are no shares, and lower ones better."""


class SucceededEvaluations:
    """Makes evaluations that have succeeded with the given rows."""

    def __init__(self, http: httpx.Client, database: Database, home: Path, file_id: str) -> None:
        self._http = http
        self._database = database
        self._home = home
        self.file_id = file_id

    def evaluation(
        self, correct: str, grader_metric: JsonObject | None = None, **fields: object
    ) -> str:
        """One row per character: 1 correct, 0 wrong, ``-`` without an answer."""
        body = {"model": "base", "file": self.file_id, **fields}
        rows = _rows(None, correct)
        metrics = {**_metrics(rows), "grader_metric": grader_metric}
        return self._succeeded(body, rows, {"metrics": metrics})

    def of_several(self, described: Mapping[str, object] | None = None, /, **correct: str) -> str:
        """An evaluation of several benchmarks of one file, with such rows by name; some may be
        ``described``."""
        own = described or {}
        entries = [
            {"name": name, "file": self.file_id, "benchmark": own.get(name)} for name in correct
        ]
        rows = {name: _rows(name, marks) for name, marks in correct.items()}
        metrics = {name: _metrics(own) for name, own in rows.items()}
        every = [row for own in rows.values() for row in own]
        body = {"model": "base", "benchmarks": entries}
        return self._succeeded(body, every, {"benchmarks": metrics})

    def of_tool_calls(self, *calls: tuple[Calls, Calls]) -> str:
        """One row per pair of expected and stated calls."""
        rows = [
            ResultRow(
                index=index,
                gold=[json.dumps(expected)],
                answer=json.dumps(stated),
                extracted=json.dumps(stated),
                correct=expected == stated,
            )
            for index, (expected, stated) in enumerate(calls)
        ]
        grader = ToolCallsGrader()
        metrics = _metrics(rows, ToolCallTotals(grader))
        body = {"model": "base", "file": self.file_id, "grader": grader.model_dump()}
        return self._succeeded(body, rows, {"metrics": metrics})

    def _succeeded(
        self, body: Mapping[str, object], rows: list[ResultRow], result: dict[str, Any]
    ) -> str:
        job_id = str(self._http.post("/v1/evaluations", json=body).json()["id"])
        self._finish(job_id, rows, result)
        return job_id

    def finish(self, job_id: str, correct: str) -> None:
        """End an evaluation that was created otherwise, with rows as of `evaluation`."""
        rows = _rows(None, correct)
        self._finish(job_id, rows, {"metrics": _metrics(rows)})

    def _finish(self, job_id: str, rows: list[ResultRow], result: dict[str, Any]) -> None:
        folder = self._home / "jobs" / job_id
        folder.mkdir(parents=True)
        lines = [row.model_dump_json() + "\n" for row in reversed(rows)]
        (folder / "results.jsonl").write_text("".join(lines))
        for status in (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.SUCCEEDED):
            given = result if status.is_final else None
            with self._database.write() as session:
                move_job(session, get_job(session, job_id), status, f"now {status}", result=given)


def _metrics(rows: list[ResultRow], tool_calls: ToolCallTotals | None = None) -> dict[str, Any]:
    totals = RunningTotals(tool_calls=tool_calls)
    for row in rows:
        totals.add(row)
    return totals.metrics().model_dump(mode="json")


def _rows(benchmark: str | None, correct: str) -> list[ResultRow]:
    return [
        ResultRow(
            benchmark=benchmark,
            index=index,
            prompt=f"question {index}",
            tags=["odd" if index % 2 else "even"],
            gold=["2"],
            answer=None if mark == "-" else mark,
            correct=None if mark == "-" else mark == "1",
            score=None if mark == "-" else int(mark) * index / len(correct),
        )
        for index, mark in enumerate(correct)
    ]
