"""The child process that evaluates a model.

``python -m services.evaluator.evaluation.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``results.jsonl`` and ends with the metrics, or fails with its cause. It
may be killed at any time and restarted on the same folder.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import BoxedIntegerGrader
from services.core.operator_environment import OperatorEnvironment
from services.core.process.outages import Outages
from services.core.process.reporter import Reporter
from services.datasets.append_log import AppendLog
from services.evaluator.child_process import ChildContext, run_child
from services.evaluator.evaluation.agent import open_agent
from services.evaluator.evaluation.benchmark_run import BenchmarkRun, runs_of
from services.evaluator.evaluation.endpoint import open_engine
from services.evaluator.evaluation.generation import Engine, Generation, Grading, generate
from services.evaluator.evaluation.overlap import questions_of, training_overlaps
from services.evaluator.evaluation.results import RESULTS, ResultRow, prepare, read_rows
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import SPEC, EvaluationSpec
from services.evaluator.evaluation.totals import SuiteTotals
from services.evaluator.evaluation.votes import unite_votes
from services.evaluator.failures import FailureWatch
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.rewards.factory import RewardFactory
from services.rewards.interface import ComparesAnswers, Component
from services.rollouts.outages import OutageWatch


async def evaluate(
    spec: EvaluationSpec,
    job_dir: Path,
    engine: AbstractAsyncContextManager[Engine],
    environment: OperatorEnvironment,
    reporter: Reporter,
) -> Mapping[str | None, EvaluationMetrics]:
    """Generate and grade every sample without a grade in ``results.jsonl``, and summarize each
    benchmark.

    ``engine`` is entered only if samples are left. Safe to repeat on the same ``job_dir`` after a
    kill: graded samples are not generated again. Raises `TemperError`.
    """
    runs = runs_of(spec)
    total = sum(run.size for run in runs)
    results_path = job_dir / RESULTS
    prepare(results_path, {run.spec.name: run.answered for run in runs})
    totals = SuiteTotals(
        {run.spec.name: run.totals for run in runs}, seconds_of_earlier_attempts(job_dir)
    )
    for row in read_rows(results_path):
        totals.add(row)
    if totals.done:
        reporter.message(f"{totals.done} of {total} samples were answered before")
    if totals.done < total:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(environment, stack)
            graders = await _graders(runs, factory)
            with Outages(job_dir).preflight() as is_repeated:
                await factory.probe(outages=is_repeated)
            model = await stack.enter_async_context(engine)
            outages = OutageWatch(job_dir, reporter)
            reporter.phase("generating")
            progress = GenerationProgress(reporter, totals, total)
            with AppendLog[ResultRow](results_path) as results:
                generations = [
                    _generation(model, run, grader, results, outages)
                    for run, grader in zip(runs, graders, strict=True)
                ]
                await generate(
                    _asked(zip(generations, runs, strict=True)),
                    min(spec.max_concurrency, total - totals.done),
                    FailureWatch(answered=totals.answered),
                    model.watch(),
                    results.sync_forever(),
                    progress.report_forever(),
                )
            progress.finish()
    for run in runs:
        _check_anything_counts(run)
    reporter.phase("summarizing")
    await _unite_votes(runs, environment, reporter)
    metrics = totals.metrics()
    for run in runs:
        found = metrics[run.spec.name]
        found.grader_metric = run.grader_metric(found)
    if spec.training:
        for run in runs:
            metrics[run.spec.name].training_overlap = await training_overlaps(
                spec.training, questions_of(run.samples()), reporter
            )
    return metrics


async def _unite_votes(
    runs: Sequence[BenchmarkRun], environment: OperatorEnvironment, reporter: Reporter
) -> None:
    """Let equal answers vote together, of benchmarks whose graders compare answers."""
    async with AsyncExitStack() as stack:
        factory = RewardFactory(environment, stack)
        for run in runs:
            if run.compares:
                grader = await factory.component(run.spec.grader, f"{run.place}grader")
                if isinstance(grader, ComparesAnswers):
                    await unite_votes(run.totals.repeated, grader, reporter)


def _check_anything_counts(run: BenchmarkRun) -> None:
    """Raise `JobFailed` if a benchmark has no sample that was not left out."""
    last = run.totals.last_left_out
    if run.totals.samples == 0 and last is not None:
        of = f" of {run.spec.name}" if run.spec.name else ""
        message = (
            f"all {run.totals.left_out} samples{of} were left out; once what failed works, retry "
            f"the evaluation. The last: {last.source}: {last.message}"
        )
        raise JobFailed(message, code="everything_left_out")


async def _graders(runs: Sequence[BenchmarkRun], factory: RewardFactory) -> list[Component]:
    """The grader of each benchmark; equal ones are shared, with their processes."""
    made: dict[str, Component] = {}
    graders = []
    for run in runs:
        key = f"{run.spec.grader.model_dump_json()} {run.spec.answer_range} {run.spec.judge!r}"
        if key not in made:
            made[key] = await _component(run, factory)
        graders.append(made[key])
    return graders


async def _component(run: BenchmarkRun, factory: RewardFactory) -> Component:
    grader, bounds = run.spec.grader, run.spec.answer_range
    if isinstance(grader, BoxedIntegerGrader) and bounds is not None:
        return await factory.bounded_integer(bounds, run.spec.judge, f"{run.place}judge")
    return await factory.component(grader, f"{run.place}grader")


def _generation(
    model: Engine,
    run: BenchmarkRun,
    grader: Component,
    results: AppendLog[ResultRow],
    outages: OutageWatch,
) -> Generation:
    spec = run.spec
    grading = Grading(
        grader,
        spec.pass_threshold,
        keep_reasoning=spec.keep_reasoning,
        prediction=spec.prediction,
        benchmark=spec.name,
        lower_is_better=spec.lower_is_better,
        subtask_of=run.subtask_of,
    )
    return Generation(
        model.asked_by(spec),
        grading,
        results,
        run.totals,
        system_prompt=spec.system_prompt,
        outages=outages,
    )


def _asked(
    generations: Iterable[tuple[Generation, BenchmarkRun]],
) -> Iterator[tuple[Generation, EvaluationSample]]:
    """All samples to generate, benchmark by benchmark, without idling the engine in between."""
    for generation, run in generations:
        for sample in run.unanswered():
            yield generation, sample


async def _run(context: ChildContext) -> JsonObject:
    job_dir = context.job_dir
    spec = EvaluationSpec.model_validate_json((job_dir / SPEC).read_bytes())
    engine: AbstractAsyncContextManager[Engine] = (
        open_agent(spec, spec.multi_turn, context)
        if spec.multi_turn is not None
        else open_engine(spec, job_dir, context.reporter, context.endpoint_key)
    )
    metrics = await evaluate(spec, job_dir, engine, context.environment, context.reporter)
    result = {name: each.model_dump(mode="json") for name, each in metrics.items()}
    if None in result:
        return {"metrics": result[None]}
    return {"benchmarks": result}


if __name__ == "__main__":
    run_child(Path(sys.argv[1]), _run)
