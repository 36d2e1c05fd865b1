"""/v1/campaigns."""

from io import StringIO
from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from sqlalchemy.orm import Session

from services.api.campaigns.history import clear_log, fork_campaign, rewind_campaign
from services.api.campaigns.report.collect import collect_report
from services.api.campaigns.report.commands import Curl
from services.api.campaigns.report.sections import campaign_document
from services.api.campaigns.service import (
    best_loop,
    campaign_view,
    create_campaign,
    get_step,
    list_loops,
)
from services.api.context import Gateway
from services.api.examples import CAMPAIGN
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.contracts.base import Page
from services.contracts.campaigns.campaigns import Campaign, ForkCampaign, RewindCampaign
from services.contracts.campaigns.loops import CampaignLoop, CampaignStep, StepName
from services.contracts.campaigns.reports import CampaignReport
from services.contracts.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.jobs.store import get_job
from services.metrics.reports.html_page import write_html
from services.metrics.reports.markdown import write_markdown

router = kind_router(JobKind.CAMPAIGN)

add_create_route(
    router,
    JobKind.CAMPAIGN,
    create_campaign,
    campaign_view,
    summary="Create a campaign",
    description="Start a campaign: an LLM that the operator allows proposes fine-tunes of a model.",
    examples=CAMPAIGN,
    errors=(InvalidRequest, PermissionDenied, Conflict),
)


@router.get(
    "/{job_id}/loops",
    summary="List the loops of one campaign",
    responses=documented_errors(NotFound),
)
def loops(gateway: Gateway, _principal: Principal, job_id: str) -> Page[CampaignLoop]:
    """List all attempts so far, the base model as loop 0 first."""
    with gateway.database.read() as session:
        job = get_job(session, job_id, JobKind.CAMPAIGN)
        return Page(data=list_loops(session, job))


@router.get(
    "/{job_id}/loops/{loop}/{step}",
    summary="Show one step of a loop",
    responses=documented_errors(NotFound, InvalidRequest),
)
def show_step(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    loop: Annotated[int, Path(ge=0, le=1000)],
    step: StepName,
) -> CampaignStep:
    """Show a step's output, its conversation with the LLM and its jobs."""
    with gateway.database.read() as session:
        get_job(session, job_id, JobKind.CAMPAIGN)
        return get_step(session, job_id, loop, step)


@router.get(
    "/{job_id}/best",
    summary="Show the best loop of one campaign",
    responses=documented_errors(NotFound),
)
def best(gateway: Gateway, _principal: Principal, job_id: str) -> CampaignLoop:
    """Show the last accepted loop, or that of the base model."""
    with gateway.database.read() as session:
        job = get_job(session, job_id, JobKind.CAMPAIGN)
        return best_loop(session, job)


@router.post(
    "/{job_id}/fork",
    summary="Fork one campaign from a step",
    responses=documented_errors(InvalidRequest, PermissionDenied, NotFound, Conflict),
)
def fork(gateway: Gateway, creation: Creation, job_id: str, body: ForkCampaign) -> Campaign:
    """Start a campaign that shares all steps except this one and its dependents."""
    return creation.create(
        f"campaigns/{job_id}/fork",
        body,
        Campaign,
        lambda session: campaign_view(fork_campaign(session, job_id, body, gateway.settings)),
    )


@router.post(
    "/{job_id}/rewind",
    summary="Rewind one campaign to a step",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def rewind(gateway: Gateway, creation: Creation, job_id: str, body: RewindCampaign) -> Campaign:
    """Clear a step of a waiting or paused campaign and all that follow from it, and cancel their
    jobs. Loops that know nothing of it go on."""

    def make(session: Session) -> Campaign:
        job, cleared = rewind_campaign(session, job_id, body)
        clear_log(gateway.artifacts, job_id, cleared)
        return campaign_view(job)

    return creation.create(f"campaigns/{job_id}/rewind", body, Campaign, make)


PAGES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/html": {"schema": {"type": "string"}},
            "text/markdown": {"schema": {"type": "string"}},
        }
    }
}
_WRITERS = {"html": write_html, "markdown": write_markdown}
PAGE_HEADERS = {
    # The report's own style sheet and nothing else.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@router.get(
    "/{job_id}/report",
    summary="Report on one campaign",
    response_model=CampaignReport,
    responses={**documented_errors(NotFound, InvalidRequest), **PAGES},
)
def report(
    gateway: Gateway,
    _principal: Principal,
    request: Request,
    job_id: str,
    format: Literal["json", "markdown", "html"] = "json",  # noqa: A002 - the wire's name
) -> CampaignReport | Response:
    """The tree of attempts, the best model, what was learned, cost, and how to repeat it."""
    curl = Curl(str(request.base_url), needs_key=bool(gateway.settings.api_key_hashes))
    with gateway.database.read() as session:
        collected = collect_report(session, get_job(session, job_id, JobKind.CAMPAIGN), curl)
    if format == "json":
        return collected
    page = StringIO()
    _WRITERS[format](page, campaign_document(collected))
    return Response(page.getvalue(), media_type=f"text/{format}", headers=PAGE_HEADERS)


KindRoutes.of(JobKind.CAMPAIGN, campaign_view).add_to(router)
