"""End-to-end time of evaluations of 5,000 items on one endpoint, compared with lm-eval and Inspect.

    python -m benchmarks.evaluation_commands [--lm-eval PYTHON] [--inspect PYTHON] [--rounds 1]

Temper runs the processes that a worker starts: file validation and evaluation. The others run in
their own environments (`pip install "lm-eval[api]"`, `pip install inspect_ai openai`). All take
turns on the same mock server with 64 requests in flight, and grade the number in the answer; times
are wall-clock times of whole processes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.batch_commands import AT_ONCE, lm_eval_command, seconds_of, write_input
from benchmarks.evaluation import mock_server
from services.contracts.rewards.graders import NumericGrader
from services.contracts.sampling import Sampling
from services.core.artifacts import SourceFile
from services.core.process.reporter import RESULT
from services.datasets.validate import validation_command
from services.evaluator.evaluation.handler import EVALUATION_CHILD, VALIDATION_CHILD
from services.evaluator.evaluation.spec import (
    SPEC,
    BenchmarkSpec,
    EvaluationFile,
    EvaluationFilesSpec,
    EvaluationSpec,
)
from services.evaluator.serving import RemoteEndpoint

LATENCIES = (0.0, 0.1)
ITEMS = "items.jsonl"
TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def sums():
    items = json_dataset({path!r}, FieldSpec(input="prompt", target="gold"))
    return Task(dataset=items, solver=generate(), scorer=match(numeric=True))
"""
Evaluate = Callable[[Path, int], float]
"""Evaluates the items of a folder with the model at a port; returns the seconds it took."""


def evaluate(folder: Path, port: int) -> float:
    """Run Temper's two processes."""
    items = folder / ITEMS
    endpoint = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "mock"}
    with (
        tempfile.TemporaryDirectory(dir=folder) as validation,
        tempfile.TemporaryDirectory(dir=folder) as work,
    ):
        file = SourceFile(path=items, filename=ITEMS)
        spec = EvaluationFilesSpec(
            checked={"file": EvaluationFile(file=file, grader=NumericGrader())}
        )
        seconds = seconds_of(validation_command(VALIDATION_CHILD, spec, Path(validation)))
        evaluation = EvaluationSpec(
            model=RemoteEndpoint.model_validate(endpoint),
            benchmarks=[
                BenchmarkSpec(
                    samples=items, grader=NumericGrader(), sampling=Sampling(max_tokens=64)
                )
            ],
            max_concurrency=AT_ONCE,
        )
        (Path(work) / SPEC).write_text(evaluation.model_dump_json())
        seconds += seconds_of([sys.executable, "-m", EVALUATION_CHILD, work])
        metrics = json.loads((Path(work) / RESULT).read_bytes())["metrics"]
        assert metrics["errors"] == 0, metrics
    return seconds


def lm_eval(python: str, folder: Path, port: int) -> float:
    """Run lm-eval on the same items."""
    return seconds_of(lm_eval_command(python, folder, port))


def inspect(python: str, folder: Path, port: int) -> float:
    """Run Inspect on the same items."""
    command = [python, "-m", "inspect_ai", "eval", "sums.py"]
    command += ["--model", "openai/mock", "-M", "responses_api=false", "--max-tokens", "64"]
    command += ["--model-base-url", f"http://127.0.0.1:{port}/v1", "--temperature", "0"]
    command += ["--max-connections", str(AT_ONCE), "--max-samples", str(AT_ONCE)]
    with tempfile.TemporaryDirectory(dir=folder) as logs:
        seconds = seconds_of([*command, "--display", "none", "--log-dir", logs], folder)
        (log,) = Path(logs).glob("*.eval")
        show = [python, "-m", "inspect_ai", "log", "dump", "--header-only", str(log)]
        header = subprocess.run(show, check=True, timeout=600, stdout=subprocess.PIPE)
    assert json.loads(header.stdout)["status"] == "success", header.stdout
    return seconds


def compare(
    rounds: int, items: int, latencies: Sequence[float], others: dict[str, Evaluate]
) -> None:
    """Print medians, and each time relative to Temper's."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_input(folder, items)
        rows = ({"prompt": f"What is {n}+2?", "gold": str(n + 2)} for n in range(items))
        (folder / ITEMS).write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "sums.py").write_text(TASK.format(path=str(folder / ITEMS)))
        print(f"{'latency':>8}  {'evaluation':<12}{'seconds':>8}{'items/s':>9}{'times ours':>12}")
        for latency in latencies:
            times: dict[str, list[float]] = {}
            with mock_server(latency) as port:
                for _ in range(rounds):
                    for name, run in {"temper": evaluate, **others}.items():
                        times.setdefault(name, []).append(run(folder, port))
            ours = statistics.median(times["temper"])
            for name, measured in times.items():
                median = statistics.median(measured)
                print(
                    f"{latency * 1000:>5.0f} ms  {name:<12}{median:>8.1f}{items / median:>9.0f}"
                    f"{median / ours:>12.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--latency", type=float, nargs="+", default=LATENCIES, help="Seconds.")
    parser.add_argument("--lm-eval", metavar="PYTHON")
    parser.add_argument("--inspect", metavar="PYTHON")
    given = parser.parse_args()
    harnesses: dict[str, Evaluate] = {}
    if given.lm_eval:
        harnesses["lm-eval"] = partial(lm_eval, given.lm_eval)
    if given.inspect:
        harnesses["inspect"] = partial(inspect, given.inspect)
    compare(given.rounds, given.items, given.latency, harnesses)
