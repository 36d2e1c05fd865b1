"""Evaluation requests: validation, the job, and its view."""

from sqlalchemy.orm import Session

from services.api.evaluations.tools import check_tool_use
from services.api.graders.service import check_grader
from services.api.jobs.view import state_fields
from services.api.models.service import check_endpoint, require_loadable
from services.api.settings import ApiSettings
from services.contracts.evaluations import CreateEvaluation, Evaluation, EvaluationMetrics
from services.contracts.jobs import JobKind
from services.core.jobs.job import REMOTE_SLOT, Job, NewJob
from services.core.jobs.queues import EVALUATION
from services.core.jobs.store import create_job
from services.core.registry import require_file


def create_evaluation(session: Session, body: CreateEvaluation, settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for a remote model or
    a grader that the operator's settings do not allow.
    """
    if isinstance(body.model, str):
        require_loadable(session, body.model, settings)
    else:
        check_endpoint(body.model, settings.allowed_endpoints)
    require_file(session, body.file)
    check_grader(body.grader, settings)
    check_tool_use(session, body, settings)
    gpus = body.gpus if isinstance(body.model, str) else REMOTE_SLOT
    return create_job(session, NewJob.of(JobKind.EVALUATION, "eval", EVALUATION, body, gpus))


def evaluation_view(job: Job) -> Evaluation:
    """The wire view of an evaluation job."""
    request = CreateEvaluation.model_validate(job.request)
    metrics = (job.result or {}).get("metrics")
    return Evaluation(
        model=request.model,
        file=request.file,
        grader=request.grader,
        benchmark=request.benchmark,
        pass_threshold=request.pass_threshold,
        sampling=request.sampling,
        tools=request.tools,
        multi_turn=request.conversation,
        samples_per_item=request.samples_per_item,
        metrics=EvaluationMetrics.model_validate(metrics) if metrics else None,
        **state_fields(job),
    )
