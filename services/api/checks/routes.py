"""/v1/checks."""

from sqlalchemy.orm import Session

from services.api.examples import CHECK
from services.api.fine_tuning.service import check_hyperparameters, require_training_file
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
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
    check_hyperparameters(_method(request), has_validation=None)
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


router = kind_router(JobKind.CHECK)

add_create_route(
    router,
    JobKind.CHECK,
    create_check,
    check_view,
    summary="Check a training file",
    description="Validate an uploaded file as a fine-tuning job would, without training on it.\n\n"
    "The check waits for no device. It fails on unusable rows and lists them.",
    examples=CHECK,
)
KindRoutes.of(JobKind.CHECK, check_view).add_to(router)
