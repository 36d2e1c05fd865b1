"""Evaluations as jobs: their child processes and stored results."""

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from services.contracts.evaluation.benchmarks import Benchmark, benchmark_of
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.evaluation.results import EvaluationMetrics
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import find_runtime
from services.datasets.validate import validation_command
from services.evaluator.evaluation.earlier import reuse_newest, reuse_spec
from services.evaluator.evaluation.lineage import training_files
from services.evaluator.evaluation.reuse import read_reuse
from services.evaluator.evaluation.spec import SPEC as EVALUATION_SPEC
from services.evaluator.evaluation.spec import (
    BenchmarkSpec,
    EvaluationFile,
    EvaluationFilesSpec,
    EvaluationSpec,
    TrainingFile,
)
from services.evaluator.models import endpoint_key, model_of, prompt_template
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import get_source_file, source_of
from services.rewards.families import families_of
from services.rewards.verdicts import FILE as VERDICTS

EVALUATION_CHILD = "services.evaluator.evaluation.child"
VALIDATION_CHILD = "services.evaluator.evaluation.validation"


class EvaluationResult(BaseModel):
    """What the evaluation child leaves in result.json."""

    metrics: EvaluationMetrics | None = None
    benchmarks: dict[str, EvaluationMetrics] | None = Field(
        default=None, description="By name, of an evaluation of several, in place of metrics."
    )


class EvaluationHandler:
    """Runs the evaluation child, which serves a local model with vLLM or calls a remote one."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch:
        """Check the rows of the files, and that the graders can use their golds.

        Raises `RuntimeMissing` without the runtime that a grader needs.
        """
        request = CreateEvaluation.model_validate(job.request)
        asked = request.by_benchmark()
        for family, _ in families_of((each.grader for each in asked.values()), "grader"):
            if family.runtime is not None:
                find_runtime(self._settings.runtimes_folder, family.runtime)
        artifacts = Artifacts(self._settings.home)
        with database.read() as session:
            checked = {
                place: EvaluationFile(
                    file=get_source_file(session, artifacts, file),
                    name=name,
                    grader=each.grader,
                    benchmark=_benchmark(each),
                    split=each.split,
                    template=prompt_template(
                        session,
                        request.model,
                        each.chat_template_kwargs,
                        self._settings,
                        tools=request.tools,
                    ),
                    system_prompt=each.system_prompt,
                )
                for (place, file), (name, each) in zip(
                    request.file_references.items(), asked.items(), strict=True
                )
            }
            reuse = reuse_spec(session, job, request, job_dir, self._settings)
        spec = EvaluationFilesSpec(checked=checked, reuse=reuse)
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Ask the model and grade its answers."""
        request = CreateEvaluation.model_validate(claim.job.request)
        settings = self._settings
        with database.read() as session:
            reuse_newest(session, claim.job, request, job_dir, settings)
            spec = EvaluationSpec(
                model=model_of(session, request.model, request.engine, settings),
                benchmarks=[
                    _benchmark_spec(session, name, each, Artifacts(settings.home))
                    for name, each in request.by_benchmark().items()
                ],
                training=_training(session, request, Artifacts(settings.home)),
                tools=request.tools,
                multi_turn=request.conversation,
                max_concurrency=request.max_concurrency,
            )
        (job_dir / EVALUATION_SPEC).write_text(spec.model_dump_json())
        command = [sys.executable, "-m", EVALUATION_CHILD, str(job_dir)]
        environment = {
            **endpoint_key(request.model, settings),
            **OperatorEnvironment.of(settings, verdicts=settings.home / VERDICTS).variables(),
        }
        return Launch(command, environment)

    def complete(self, _session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Keep the metrics, and what makes them reusable; the results stay in the job's folder."""
        kept = EvaluationResult.model_validate(result).model_dump(mode="json")
        reuse = read_reuse(Artifacts(self._settings.home).job(job.id))
        return kept | {"reuse": reuse.model_dump(mode="json") if reuse else None}


def _benchmark_spec(
    session: Session, name: str | None, request: CreateEvaluation, artifacts: Artifacts
) -> BenchmarkSpec:
    return BenchmarkSpec(
        name=name,
        samples=get_source_file(session, artifacts, request.only_file).path,
        grader=request.grader,
        benchmark=_benchmark(request),
        split=request.split,
        pass_threshold=request.passing_score,
        sampling=request.sampling,
        chat_template_kwargs=request.chat_template_kwargs,
        system_prompt=request.system_prompt,
        keep_reasoning=request.keep_reasoning,
        prediction=request.prediction,
        judge=request.judge,
        max_samples=request.max_samples,
        samples_per_item=request.samples_per_item,
    )


def _training(
    session: Session, request: CreateEvaluation, artifacts: Artifacts
) -> list[TrainingFile]:
    if not isinstance(request.model, str):
        return []
    files = training_files(session, request.model)
    return [TrainingFile(id=row.id, source=source_of(row, artifacts)) for row in files]


def _benchmark(request: CreateEvaluation) -> Benchmark | None:
    return None if request.benchmark is None else benchmark_of(request.benchmark)
