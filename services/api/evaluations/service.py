"""Evaluation requests: validation, the job, and its view."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from services.api.evaluations.tools import check_tool_use
from services.api.graders.service import check_grader
from services.api.jobs.view import state_fields
from services.api.models.service import check_endpoint, require_loadable
from services.api.settings import ApiSettings
from services.contracts.evaluation.evaluations import BenchmarkOutcome, CreateEvaluation, Evaluation
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.jobs import JobKind
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job
from services.metrics.macro_average import macro_average
from services.metrics.main_metric import main_metric
from services.models.registry import require_file
from services.rewards.graders.bounded_integer import judge_of_wrong


def create_evaluation(session: Session, body: CreateEvaluation, settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for a remote model or
    a grader that the operator's settings do not allow.
    """
    if isinstance(body.model, str):
        require_loadable(session, body.model, settings)
    else:
        check_endpoint(body.model, settings.allowed_endpoints)
    for field, file in body.file_references.items():
        require_file(session, file, field)
    for each in body.by_benchmark().values():
        check_grader(each.grader, settings)
        if each.judge is not None:
            check_grader(judge_of_wrong(each.judge), settings, "judge")
    check_tool_use(session, body, settings)
    gpus = body.gpus if isinstance(body.model, str) else REMOTE_SLOT
    return create_job(session, NewJob.of(JobKind.EVALUATION, body, gpus))


def evaluation_view(job: Job) -> Evaluation:
    """The wire view of an evaluation job."""
    request = CreateEvaluation.model_validate(job.request)
    result = job.result or {}
    if request.benchmarks is None:
        only = _outcome(None, request, result.get("metrics"))
        own = {name: getattr(only, name) for name in type(only).model_fields.keys() - {"name"}}
        return Evaluation(
            model=request.model,
            tools=request.tools,
            multi_turn=request.conversation,
            **own,
            **_reuse(result),
            **state_fields(job),
        )
    found = result.get("benchmarks") or {}
    outcomes = [
        _outcome(name, each, found.get(name)) for name, each in request.by_benchmark().items()
    ]
    return Evaluation(
        model=request.model,
        benchmarks=outcomes,
        macro_average=macro_average(outcomes),
        split=request.split,
        sampling=request.sampling,
        tools=request.tools,
        multi_turn=request.conversation,
        samples_per_item=request.samples_per_item,
        **_reuse(result),
        **state_fields(job),
    )


def _reuse(result: Mapping[str, Any]) -> dict[str, str | None]:
    reuse = result.get("reuse") or {}
    return {name: reuse.get(name) for name in ("cached_from", "not_cached")}


def _outcome(name: str | None, request: CreateEvaluation, metrics: Any) -> BenchmarkOutcome:
    outcome = BenchmarkOutcome(
        name=name,
        file=request.only_file,
        grader=request.grader,
        benchmark=request.benchmark,
        split=request.split,
        pass_threshold=request.pass_threshold,
        sampling=request.sampling,
        samples_per_item=request.samples_per_item,
        metrics=EvaluationMetrics.model_validate(metrics) if metrics else None,
    )
    return outcome.model_copy(update={"main_metric": main_metric(outcome)})
