"""A job folder of the evaluation child, and the child as a worker starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import NumericGrader
from services.contracts.sampling import Sampling
from services.core.process.reporter import REPORTS, RESULT
from services.evaluator.evaluation.results import RESULTS, ResultRow, read_rows
from services.evaluator.evaluation.spec import SPEC, BenchmarkSpec, EvaluationSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

DEADLINE = 180.0


class EvaluationJob:
    """A job folder with addition problems, and the child that evaluates them.

    ``fields`` are those of the only benchmark and of the evaluation; ``benchmarks`` are others.
    """

    def __init__(
        self, folder: Path, model: RemoteEndpoint | LocalModel, samples: int, **fields: Any
    ) -> None:
        self.folder = folder
        folder.mkdir()
        rows = [{"prompt": prompt(i), "gold": 2 * i + 1} for i in range(samples)]
        self.write_samples(rows)
        shared: dict[str, Any] = {"max_concurrency": 16}
        shared |= {
            name: fields.pop(name)
            for name in ("max_concurrency", "training", "benchmarks", "tools", "multi_turn")
            if name in fields
        }
        values: dict[str, Any] = {"sampling": Sampling(), "grader": NumericGrader(), **fields}
        only = BenchmarkSpec(samples=folder / "samples.jsonl", **values)
        spec = EvaluationSpec(model=model, **{"benchmarks": [only], **shared})
        (folder / SPEC).write_text(spec.model_dump_json())

    def write_samples(self, rows: list[JsonObject]) -> None:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (self.folder / "samples.jsonl").write_text("".join(lines), encoding="utf-8")

    @contextmanager
    def child(self, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
        command = [sys.executable, "-m", "services.evaluator.evaluation.child", str(self.folder)]
        with open(self.folder / "log.txt", "ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]} | environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()  # which stops its vLLM server, too
            process.wait(DEADLINE)

    def run(self, seconds: float = DEADLINE, **environment: str) -> None:
        with self.child(**environment) as process:
            process.wait(seconds)
        assert (self.folder / RESULT).exists(), (self.folder / "log.txt").read_text()

    def wait_for_rows(self, rows: int) -> None:
        results = self.folder / RESULTS
        wait_for(lambda: complete_lines(results) >= rows, f"{rows} rows are there", DEADLINE)

    def metrics(self) -> EvaluationMetrics:
        result = json.loads((self.folder / RESULT).read_bytes())
        assert result["status"] == "succeeded", result
        return EvaluationMetrics.model_validate(result["metrics"])

    def failure(self) -> JsonObject:
        result = json.loads((self.folder / RESULT).read_bytes())
        assert result["status"] == "failed", result
        failure: JsonObject = result["error"]
        return failure

    def rows(self) -> list[ResultRow]:
        return list(read_rows(self.folder / RESULTS))

    def reports(self, kind: str) -> list[JsonObject]:
        lines = (self.folder / REPORTS).read_text(encoding="utf-8").splitlines()
        return [report for report in map(json.loads, lines) if report["type"] == kind]


def prompt(index: int) -> str:
    return f"{index}+{index + 1}="


def index_of(text: str) -> int:
    return int(text.partition("+")[0])


def complete_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def without_times(metrics: EvaluationMetrics) -> JsonObject:
    return metrics.model_dump(exclude={"generation_seconds", "tokens_per_second"})
