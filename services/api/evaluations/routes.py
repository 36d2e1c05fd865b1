"""/v1/evaluations."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.context import Gateway, Principal
from services.api.creation import Creation
from services.api.evaluations.examples import CREATE
from services.api.evaluations.results import list_results
from services.api.evaluations.service import create_evaluation
from services.api.evaluations.view import evaluation_view
from services.api.jobs.event_query import EVENTS_ANSWERS, Events, EventsAnswer
from services.api.jobs.metadata_filter import MetadataFilter
from services.api.paging import After, Limit, page_of
from services.common.contracts.evaluations import CreateEvaluation, Evaluation, SampleResult
from services.common.contracts.jobs import Event, JobKind
from services.common.contracts.pages import DEFAULT_LIMIT, Page
from services.common.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.common.jobs.store import JobFilter, get_job, list_jobs, request_cancel
from services.common.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/evaluations",
    tags=["evaluations"],
    responses=documented_errors(AuthenticationFailed),
)

KIND = JobKind.EVALUATION


@router.post(
    "",
    summary="Create an evaluation",
    responses=documented_errors(InvalidRequest, PermissionDenied, Conflict),
)
def create(
    gateway: Gateway,
    creation: Creation,
    body: Annotated[CreateEvaluation, Body(openapi_examples=CREATE)],
) -> Evaluation:
    """Queue an evaluation of a registered model, or of a remote one the operator allows."""
    allowed = gateway.settings.allowed_endpoints
    return creation.create(
        "evaluations",
        body,
        Evaluation,
        lambda session: evaluation_view(create_evaluation(session, body, allowed)),
    )


@router.get("", summary="List evaluations", responses=documented_errors(InvalidRequest, NotFound))
def list_all(
    gateway: Gateway,
    _principal: Principal,
    metadata: MetadataFilter,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Evaluation]:
    """List evaluations, newest first."""
    where = JobFilter(kind=KIND, metadata=metadata)
    with gateway.database.read() as session:
        jobs, has_more = list_jobs(session, where, after, limit)
    return page_of([evaluation_view(job) for job in jobs], has_more)


@router.get("/{job_id}", summary="Show an evaluation", responses=documented_errors(NotFound))
def get(gateway: Gateway, _principal: Principal, job_id: str) -> Evaluation:
    """Show one evaluation."""
    with gateway.database.read() as session:
        return evaluation_view(get_job(session, job_id, KIND))


@router.post(
    "/{job_id}/cancel",
    summary="Cancel an evaluation",
    responses=documented_errors(NotFound, Conflict),
)
def cancel(gateway: Gateway, _principal: Principal, job_id: str) -> Evaluation:
    """Cancel a waiting job at once; ask the worker of a running one to end it."""
    with gateway.database.write() as session:
        return evaluation_view(request_cancel(session, job_id, KIND))


@router.get(
    "/{job_id}/events",
    summary="List or follow an evaluation's events",
    response_model=Page[Event],
    responses=EVENTS_ANSWERS,
)
def events(gateway: Gateway, _principal: Principal, job_id: str, query: Events) -> EventsAnswer:
    """List events, newest first, or stream them, oldest first."""
    return query.answer(gateway, job_id, KIND)


@router.get(
    "/{job_id}/results",
    summary="List an evaluation's results",
    responses=documented_errors(InvalidRequest, NotFound),
)
def results(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[SampleResult]:
    """List the judged samples so far, in the order in which they completed."""
    with gateway.database.read() as session:
        get_job(session, job_id, KIND)
    return list_results(gateway.artifacts.job(job_id), after=after, limit=limit)
