"""/v1/evaluations."""

from typing import Annotated

from fastapi import Query

from services.api.context import Gateway
from services.api.evaluations.comparison import compare_evaluations, pair_benchmarks
from services.api.evaluations.results import ResultFilter, list_results
from services.api.evaluations.service import create_evaluation, evaluation_view
from services.api.examples import EVALUATION
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.evaluation.comparisons import CompareEvaluations, EvaluationComparison
from services.contracts.evaluation.results import ResultOrder, ResultOutcome, SampleResult
from services.contracts.jobs import JobKind
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import MAX_NUMBER, After, Limit
from services.jobs.store import get_job

router = kind_router(JobKind.EVALUATION)

KIND = JobKind.EVALUATION


add_create_route(
    router,
    JobKind.EVALUATION,
    create_evaluation,
    evaluation_view,
    summary="Create an evaluation",
    description="Queue an evaluation of a registered model, or of a remote one the operator "
    "allows.",
    examples=EVALUATION,
    errors=(InvalidRequest, PermissionDenied, Conflict),
)
KindRoutes.of(JobKind.EVALUATION, evaluation_view).add_to(router)


@router.get(
    "/{job_id}/results",
    summary="List an evaluation's results",
    responses=documented_errors(InvalidRequest, NotFound),
)
def results(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    outcome: Annotated[
        ResultOutcome | None, Query(description="`failed`: no answer or no score.")
    ] = None,
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=1_000, description="Only answers with this text."),
    ] = None,
    benchmark: Annotated[
        str | None, Query(max_length=100, description="Only rows of this benchmark.")
    ] = None,
    tag: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Only rows with this tag or sub-task."),
    ] = None,
    row: Annotated[
        int | None,
        Query(ge=0, le=MAX_NUMBER, description="Only the samples of this row of the file."),
    ] = None,
    order: ResultOrder = "completion",
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[SampleResult]:
    """List the samples so far in order of completion, or in input order within each benchmark."""
    with gateway.database.read() as session:
        get_job(session, job_id, KIND)
    where = ResultFilter(outcome, text, benchmark, tag, row)
    return list_results(
        gateway.artifacts.job(job_id), after=after, limit=limit, where=where, order=order
    )


@router.post(
    "/{job_id}/compare",
    summary="Compare evaluations of the same items",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def compare(
    gateway: Gateway, _principal: Principal, job_id: str, body: CompareEvaluations
) -> EvaluationComparison:
    """Test candidates against this evaluation: difference, interval, p-value, changed items."""
    with gateway.database.read() as session:
        pairs = pair_benchmarks(session, job_id, body)
    return compare_evaluations(gateway.artifacts, job_id, pairs)
