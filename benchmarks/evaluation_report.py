"""Time and memory to write the report of an evaluation with many rows, by format.

Each format is written by its own process, whose peak memory is compared with its memory before the
report, when all rows are loaded.

    python -m benchmarks.evaluation_report [--rows 100000]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from services.contracts.evaluation.evaluations import Evaluation
from services.contracts.evaluation.results import EvaluationMetrics, SampleResult
from services.contracts.jobs import JobStatus
from services.contracts.rewards.graders import ExactGrader
from services.contracts.sampling import Sampling
from services.metrics.evaluation_report import FORMATS, EvaluationReport
from services.metrics.reports.writers import write_document

REPOSITORY = Path(__file__).parents[1]
NAME = "eval-1"
ANSWER = "The parts add up to {sum}. " * 8
"""About 200 characters, the length of a short answer with its reason."""


def measure(suffix: str, rows: int) -> dict[str, float]:
    """Return a report's seconds, file size, and memory before and at the peak, in MiB."""
    report = EvaluationReport([_evaluation(rows)], {NAME: [_row(index) for index in range(rows)]})
    before = _peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"report{suffix}"
        begun = time.perf_counter()
        write_document(report.document(), path)
        seconds = time.perf_counter() - begun
        size = path.stat().st_size / 2**20
    return {"seconds": seconds, "file": size, "before": before, "peak": _peak()}


def compare(rows: int) -> None:
    """Print one line per format."""
    print(f"{'format':>6} {'seconds':>8} {'file MiB':>9} {'rows MiB':>9} {'peak MiB':>9}")
    for suffix in FORMATS:
        module = "benchmarks.evaluation_report"
        command = [sys.executable, "-m", module, "--rows", str(rows), "--format", suffix]
        done = subprocess.run(
            command, cwd=REPOSITORY, check=True, timeout=600, stdout=subprocess.PIPE
        )
        found = json.loads(done.stdout)
        print(
            f"{suffix:>6} {found['seconds']:>8.1f} {found['file']:>9.1f}"
            f" {found['before']:>9.0f} {found['peak']:>9.0f}"
        )


def _row(index: int) -> SampleResult:
    correct = index % 3 > 0
    return SampleResult(
        id=f"evalres-{index}",
        index=index,
        gold=[str(index)],
        answer=ANSWER.format(sum=index if correct else -index),
        extracted=str(index if correct else -index),
        correct=correct,
        score=float(correct),
        latency_seconds=0.25,
        completion_tokens=40 + index % 100,
    )


def _evaluation(rows: int) -> Evaluation:
    correct = sum(index % 3 > 0 for index in range(rows))
    metrics = EvaluationMetrics(
        samples=rows,
        correct=correct,
        errors=0,
        items=rows,
        accuracy=correct / rows,
        stderr=0.001,
        ci95=(correct / rows - 0.002, correct / rows + 0.002),
        prompt_tokens=50 * rows,
        completion_tokens=90 * rows,
        generation_seconds=1000.0,
        tokens_per_second=90.0 * rows / 1000,
    )
    return Evaluation(
        id=NAME,
        status=JobStatus.SUCCEEDED,
        created_at=0,
        model="measured",
        file="file-1",
        grader=ExactGrader(),
        sampling=Sampling(),
        metrics=metrics,
    )


def _peak() -> float:
    """Return this process's peak memory in MiB; Linux reports KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--format", choices=FORMATS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.format is not None:
        print(json.dumps(measure(arguments.format, arguments.rows)))
    else:
        compare(arguments.rows)
