"""Check requests: validation, the job, and its view."""

from sqlalchemy.orm import Session

from services.api.fine_tuning.service import check_hyperparameters, require_training_file
from services.api.jobs.view import state_fields
from services.api.models.service import require_loadable
from services.api.settings import ApiSettings
from services.contracts.jobs import JobKind
from services.contracts.training.checks import Check, CreateCheck, ValidationReport
from services.contracts.training.fine_tuning import Method
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job


def create_check(session: Session, body: CreateCheck, settings: ApiSettings) -> Job:
    """Queue the job; raises `InvalidRequest` with the field at fault."""
    request = body.model_copy(update={"method": body.method or Method()})
    require_training_file(session, request.training_file, "training_file")
    if request.model is not None:
        require_loadable(session, request.model, settings)
    # A check ignores arguments of evaluations during training.
    check_hyperparameters(_method(request), has_validation=True)
    # A check needs no device after validation, and must not wait for training jobs.
    return create_job(session, NewJob.of(JobKind.CHECK, request, REMOTE_SLOT))


def check_view(job: Job) -> Check:
    """The wire view of a check."""
    request = CreateCheck.model_validate(job.request)
    report = (job.result or {}).get("report")
    return Check(
        training_file=request.training_file,
        model=request.model,
        method=_method(request),
        max_errors=request.max_errors,
        report=None if report is None else ValidationReport.model_validate(report),
        **state_fields(job),
    )


def _method(request: CreateCheck) -> Method:
    return request.method or Method()
