"""Checking an evaluation request and turning it into a job."""

from collections.abc import Sequence

import re2
from sqlalchemy.orm import Session

from services.api.files.service import get_file_row
from services.api.models.endpoints import check_endpoint
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.evaluations import CreateEvaluation, RegexGrader, RemoteModel
from services.contracts.jobs import JobKind
from services.core.ids import new_id
from services.core.jobs.job import Job, NewJob
from services.core.jobs.queues import EVALUATION
from services.core.jobs.store import create_job
from services.core.models.registry import get_model_row


def create_evaluation(
    session: Session, body: CreateEvaluation, allowed_endpoints: Sequence[str]
) -> Job:
    """Check what can be checked without reading the file, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for a remote model
    whose origin the operator has not allowed.
    """
    try:
        if isinstance(body.model, str):
            get_model_row(session, body.model)
    except NotFound as error:
        raise InvalidRequest(error.message, param="model", code=error.code) from None
    try:
        get_file_row(session, body.file)
    except NotFound as error:
        raise InvalidRequest(error.message, param="file", code=error.code) from None
    if isinstance(body.model, RemoteModel):
        check_endpoint(body.model, allowed_endpoints)
    if isinstance(body.grader, RegexGrader):
        _check_pattern(body.grader.pattern)
    return create_job(
        session,
        NewJob(
            id=new_id("eval"),
            kind=JobKind.EVALUATION,
            queue=EVALUATION.work,
            validation_queue=EVALUATION.validation,
            request=body.model_dump(mode="json"),
            # A remote model needs no device of ours.
            gpus=body.gpus if isinstance(body.model, str) else 0,
            priority=body.priority,
            metadata=body.metadata,
        ),
    )


def _check_pattern(pattern: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise InvalidRequest(f"not a pattern of RE2: {reason}", param="grader.pattern") from None
