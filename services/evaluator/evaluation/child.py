"""The child process that evaluates a model.

``python -m services.evaluator.evaluation.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``results.jsonl`` and ends with the metrics, or fails with its cause. It
may be killed at any time and restarted on the same folder.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import islice
from pathlib import Path

from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.evaluations import EvaluationMetrics
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.datasets.append_log import AppendLog
from services.datasets.record import UnreadableFile
from services.evaluator.evaluation.endpoint import open_engine
from services.evaluator.evaluation.generation import ChatModel, Generation, Grading
from services.evaluator.evaluation.results import (
    RESULTS,
    ResultRow,
    RunningTotals,
    prepare,
    read_rows,
)
from services.evaluator.evaluation.samples import EvaluationSample, gold_matcher, read_samples
from services.evaluator.evaluation.spec import SPEC, EvaluationSpec
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.evaluator.serving import ENDPOINT_KEY
from services.rewards.factory import RewardFactory


async def evaluate(
    spec: EvaluationSpec,
    job_dir: Path,
    engine: AbstractAsyncContextManager[ChatModel],
    environment: OperatorEnvironment,
    reporter: Reporter,
) -> EvaluationMetrics:
    """Ask and grade every sample without a grade in ``results.jsonl``, and sum up all of them.

    ``engine`` is entered only if samples are left. Safe to repeat on the same ``job_dir`` after a
    kill: graded samples are not asked again. Raises `TemperError`.
    """
    total = _count(spec)
    results_path = job_dir / RESULTS
    prepare(results_path, total)
    totals = RunningTotals(seconds=seconds_of_earlier_attempts(job_dir))
    answered = bytearray(total)
    for row in read_rows(results_path):
        totals.add(row)
        answered[row.index] = True
    if totals.samples:
        reporter.message(f"{totals.samples} of {total} samples were answered in earlier attempts")
    if totals.samples < total:
        async with engine as model, AsyncExitStack() as stack:
            grader = await RewardFactory(environment, stack).component(spec.grader, "grader")
            reporter.phase("generating")
            progress = GenerationProgress(reporter, totals, total)
            with AppendLog[ResultRow](results_path) as results:
                generation = Generation(
                    model,
                    Grading(grader, spec.pass_threshold),
                    results,
                    totals,
                    system_prompt=spec.system_prompt,
                )
                await generation.run(
                    (sample for sample in _samples(spec) if not answered[sample.index]),
                    min(spec.max_concurrency, total - totals.samples),
                    results.sync_forever(),
                    progress.report_forever(),
                )
            progress.finish()
    reporter.phase("summarizing")
    return totals.metrics()


def _samples(spec: EvaluationSpec) -> Iterator[EvaluationSample]:
    return islice(read_samples(spec.samples, gold_matcher(spec.grader)), spec.max_samples)


def _count(spec: EvaluationSpec) -> int:
    try:
        count = sum(1 for _ in _samples(spec))
    except UnreadableFile as error:
        raise InvalidRequest(error.message, param="file") from error
    if not count:
        raise InvalidRequest("the file has no samples", param="file")
    return count


def main(job_dir: Path) -> None:
    """Run the evaluation in a job directory; the outcome is in its result.json."""
    # Keys are removed from the environment, so that a server started for the job inherits none.
    endpoint_key = os.environ.pop(ENDPOINT_KEY, None)
    environment = OperatorEnvironment.take_from(os.environ)
    reporter = Reporter(job_dir)
    spec = EvaluationSpec.model_validate_json((job_dir / SPEC).read_bytes())
    try:
        metrics = asyncio.run(_run(spec, job_dir, environment, reporter, endpoint_key))
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param, retryable=error.retryable)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    else:
        reporter.finish(metrics=metrics.model_dump(mode="json"))


async def _run(
    spec: EvaluationSpec,
    job_dir: Path,
    environment: OperatorEnvironment,
    reporter: Reporter,
    endpoint_key: str | None,
) -> EvaluationMetrics:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a running loop
    # Shut down in order: sync the rows, stop the server of the job.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    engine = open_engine(spec, job_dir, reporter, endpoint_key)
    return await evaluate(spec, job_dir, engine, environment, reporter)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
