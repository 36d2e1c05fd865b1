"""The child process that evaluates a model.

``python -m services.evaluator.evaluation.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``results.jsonl`` and ends with the metrics, or fails with its cause. It
may be killed at any time and restarted on the same folder.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.evaluations import EvaluationMetrics
from services.contracts.graders import (
    ChemistryGrader,
    FunctionCallsGrader,
    GoldGrader,
    MathGrader,
    PanoramaGrader,
)
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.datasets.append_log import AppendLog
from services.datasets.record import UnreadableFile
from services.evaluator.child_process import ChildContext, run_child
from services.evaluator.evaluation.agent import open_agent
from services.evaluator.evaluation.endpoint import open_engine
from services.evaluator.evaluation.generation import ChatModel, Generation, Grading
from services.evaluator.evaluation.overlap import training_overlaps
from services.evaluator.evaluation.results import (
    RESULTS,
    ResultRow,
    RunningTotals,
    prepare,
    read_rows,
)
from services.evaluator.evaluation.samples import EvaluationSample, gold_check, read_samples
from services.evaluator.evaluation.spec import SPEC, EvaluationSpec
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.metrics.contamination import said_by_users
from services.rewards.factory import RewardFactory

EXTRACTING = GoldGrader | MathGrader | ChemistryGrader | FunctionCallsGrader | PanoramaGrader
"""Graders that compare a part of the answer, without which it is unparsable."""


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
    items, repeats = _count(spec), spec.samples_per_item
    total = items * repeats
    results_path = job_dir / RESULTS
    prepare(results_path, items, repeats)
    totals = RunningTotals(
        repeats,
        extracts=isinstance(spec.grader, EXTRACTING),
        seconds=seconds_of_earlier_attempts(job_dir),
    )
    answered = bytearray(total)
    for row in read_rows(results_path):
        totals.add(row)
        answered[row.index * repeats + row.sample] = True
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
                    Grading(
                        grader,
                        spec.pass_threshold,
                        keep_reasoning=spec.keep_reasoning,
                        prediction=spec.prediction,
                    ),
                    results,
                    totals,
                    system_prompt=spec.system_prompt,
                )
                await generation.run(
                    _unanswered(spec, answered),
                    min(spec.max_concurrency, total - totals.samples),
                    results.sync_forever(),
                    progress.report_forever(),
                )
            progress.finish()
    reporter.phase("summarizing")
    metrics = totals.metrics()
    if spec.training:
        questions = [said_by_users(sample.messages) for sample in _samples(spec)]
        metrics.training_overlap = await training_overlaps(spec.training, questions, reporter)
    return metrics


def _samples(spec: EvaluationSpec) -> Iterator[EvaluationSample]:
    return islice(
        read_samples(spec.samples, gold_check(spec.grader), spec.benchmark), spec.max_samples
    )


def _unanswered(spec: EvaluationSpec, answered: bytearray) -> Iterator[EvaluationSample]:
    """The samples to ask. Those of an item are adjacent: its prompt is then in the engine's
    prefix cache."""
    for item in _samples(spec):
        for sample in range(spec.samples_per_item):
            if not answered[item.index * spec.samples_per_item + sample]:
                yield replace(item, sample=sample)


def _count(spec: EvaluationSpec) -> int:
    try:
        count = sum(1 for _ in _samples(spec))
    except UnreadableFile as error:
        raise InvalidRequest(error.message, param="file") from error
    if not count:
        raise InvalidRequest("the file has no samples", param="file")
    return count


async def _run(context: ChildContext) -> JsonObject:
    job_dir = context.job_dir
    spec = EvaluationSpec.model_validate_json((job_dir / SPEC).read_bytes())
    engine: AbstractAsyncContextManager[ChatModel] = (
        open_agent(spec, spec.multi_turn, context)
        if spec.multi_turn is not None
        else open_engine(spec, job_dir, context.reporter, context.endpoint_key)
    )
    metrics = await evaluate(spec, job_dir, engine, context.environment, context.reporter)
    return {"metrics": metrics.model_dump(mode="json")}


if __name__ == "__main__":
    run_child(Path(sys.argv[1]), _run)
