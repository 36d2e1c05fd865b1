"""One attempt at an evaluation, from what earlier attempts left to the metrics."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from itertools import islice
from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.contracts.evaluations import EvaluationMetrics
from services.core.process.reporter import Reporter
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.generation import ChatModel, Generation
from services.evaluator.evaluation.results import RESULTS, ResultRow, prepare, read_rows
from services.evaluator.evaluation.spec import EvaluationSpec
from services.evaluator.evaluation.tally import Tally
from services.evaluator.graders.factory import make_grader
from services.evaluator.graders.grader import Grader
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.evaluator.samples import Sample, read_samples


async def evaluate(
    spec: EvaluationSpec,
    job_dir: Path,
    engine: AbstractAsyncContextManager[ChatModel],
    reporter: Reporter,
) -> EvaluationMetrics:
    """Ask every sample that has no answer in ``results.jsonl`` yet, and sum up all of them.

    ``engine`` is entered only when there is something to ask. Safe to call again on the same
    ``job_dir`` after a kill: what was answered is not asked again. Raises `TemperError`.
    """
    grader = make_grader(spec.grader)
    total = _count(spec, grader)
    results_path = job_dir / RESULTS
    prepare(results_path, total)
    tally = Tally(seconds=seconds_of_earlier_attempts(job_dir))
    answered = bytearray(total)
    for row in read_rows(results_path):
        tally.add(row)
        answered[row.index] = True
    if tally.samples:
        reporter.message(f"{tally.samples} of {total} samples were answered in earlier attempts")
    if tally.samples < total:
        async with engine as model:
            reporter.phase("generating")
            progress = GenerationProgress(reporter, tally, total)
            with AppendLog[ResultRow](results_path) as results:
                generation = Generation(
                    model, grader, results, tally, system_prompt=spec.system_prompt
                )
                await generation.run(
                    (sample for sample in _samples(spec) if not answered[sample.index]),
                    min(spec.max_concurrency, total - tally.samples),
                    results.sync_forever(),
                    progress.report_forever(),
                )
            progress.finish()
    reporter.phase("summarising")
    return tally.metrics()


def _samples(spec: EvaluationSpec) -> Iterator[Sample]:
    return islice(read_samples(spec.samples), spec.max_samples)


def _count(spec: EvaluationSpec, grader: Grader) -> int:
    """How many samples there are; raises when the grader cannot use the gold of one."""
    count = 0
    for sample in _samples(spec):
        for gold in sample.gold:
            try:
                grader.check_gold(gold)
            except InvalidRequest as error:
                message = f"sample {sample.index}: {error.message}"
                raise InvalidRequest(message, param="file") from error
        count += 1
    if not count:
        raise InvalidRequest("the file holds no samples", param="file")
    return count
