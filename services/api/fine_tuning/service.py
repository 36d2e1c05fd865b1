"""Checking a fine-tuning request and turning it into a job."""

import secrets

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from services.api.files.service import get_file_row
from services.api.fine_tuning.online import check_online
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.files import FilePurpose
from services.contracts.fine_tuning import (
    HUB_DATASET_PREFIX,
    CreateFineTuningJob,
    Method,
    SupervisedMethod,
)
from services.contracts.jobs import JobKind
from services.contracts.llamafactory import check_arguments, check_template
from services.contracts.models import HubName
from services.core.ids import new_id
from services.core.jobs.job import Job, NewJob
from services.core.jobs.queues import TRAINING
from services.core.jobs.store import create_job
from services.core.models.registry import get_model_row

HYPERPARAMETERS = "method.supervised.hyperparameters"


def create_fine_tuning_job(
    session: Session, body: CreateFineTuningJob, settings: ApiSettings
) -> Job:
    """Check what can be checked without reading the files, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for what the
    operator's settings do not allow.
    """
    request = _with_method(body)
    _check_model(session, request.model)
    _check_file(session, request.training_file, "training_file")
    if request.validation_file is not None:
        _check_file(session, request.validation_file, "validation_file")
    _check_llamafactory(request)
    check_online(session, request, settings)
    return create_job(
        session,
        NewJob(
            id=new_id("ftjob"),
            kind=JobKind.FINE_TUNING,
            queue=TRAINING.work,
            validation_queue=TRAINING.validation,
            request=request.model_dump(mode="json"),
            gpus=request.gpus,
            priority=request.priority,
            metadata=request.metadata,
        ),
    )


def _with_method(body: CreateFineTuningJob) -> CreateFineTuningJob:
    """Fill in what the client left open: the method's one place, and the seed."""
    if body.hyperparameters is not None and body.method is not None:
        raise InvalidRequest("give it in method or here, not both", param="hyperparameters")
    method = body.method or Method()
    if body.hyperparameters is not None:
        method = Method(supervised=SupervisedMethod(hyperparameters=body.hyperparameters))
    seed = body.seed if body.seed is not None else secrets.randbelow(2**31)
    return body.model_copy(update={"method": method, "hyperparameters": None, "seed": seed})


def _check_model(session: Session, model: str) -> None:
    try:
        get_model_row(session, model)
    except NotFound as error:
        raise InvalidRequest(error.message, param="model", code=error.code) from None


def _check_file(session: Session, reference: str, param: str) -> None:
    if reference.startswith(HUB_DATASET_PREFIX):
        _check_hub_dataset(reference, param)
        return
    try:
        row = get_file_row(session, reference)
    except NotFound as error:
        raise InvalidRequest(error.message, param=param, code=error.code) from None
    if row.purpose != FilePurpose.FINE_TUNE:
        raise InvalidRequest(
            f"{reference} has purpose {row.purpose!r}, not {FilePurpose.FINE_TUNE.value!r}",
            param=param,
        )


_HUB_NAME: TypeAdapter[str] = TypeAdapter(HubName)


def _check_hub_dataset(reference: str, param: str) -> None:
    try:
        _HUB_NAME.validate_python(reference.removeprefix(HUB_DATASET_PREFIX))
    except ValidationError:
        message = f"{reference[:100]!r} is not {HUB_DATASET_PREFIX}<owner>/<name>"
        raise InvalidRequest(message, param=param) from None


def _check_llamafactory(request: CreateFineTuningJob) -> None:
    if request.method is None or request.method.supervised is None:
        return
    hyperparameters = request.method.supervised.hyperparameters
    try:
        check_arguments(hyperparameters.llamafactory)
        if hyperparameters.template is not None:
            check_template(hyperparameters.template)
    except InvalidRequest as error:
        error.param = f"{HYPERPARAMETERS}.{error.param}"
        raise
