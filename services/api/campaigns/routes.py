"""/v1/campaigns."""

from typing import Annotated

from fastapi import APIRouter, Body, Path

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
from services.api.jobs.kind_routes import KindRoutes
from services.contracts.base import Page
from services.contracts.campaigns import (
    Campaign,
    CampaignLoop,
    CampaignStep,
    CreateCampaign,
    StepName,
)
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.core.jobs.store import get_job
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/campaigns", tags=["campaigns"], responses=documented_errors(AuthenticationFailed)
)


@router.post(
    "",
    summary="Create a campaign",
    responses=documented_errors(InvalidRequest, PermissionDenied, Conflict),
)
def create(
    gateway: Gateway,
    creation: Creation,
    body: Annotated[CreateCampaign, Body(openapi_examples=CAMPAIGN)],
) -> Campaign:
    """Start a campaign: an LLM that the operator allows proposes fine-tunes of a model."""
    return creation.create(
        "campaigns",
        body,
        Campaign,
        lambda session: campaign_view(create_campaign(session, body, gateway.settings)),
    )


@router.get(
    "/{job_id}/loops",
    summary="List the loops of one campaign",
    responses=documented_errors(NotFound),
)
def loops(gateway: Gateway, _principal: Principal, job_id: str) -> Page[CampaignLoop]:
    """List all attempts so far, the base model as loop 0 first."""
    with gateway.database.read() as session:
        get_job(session, job_id, JobKind.CAMPAIGN)
        return Page(data=list_loops(session, job_id))


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
        get_job(session, job_id, JobKind.CAMPAIGN)
        return best_loop(session, job_id)


KindRoutes(JobKind.CAMPAIGN, "campaign", Campaign, campaign_view).add_to(router)
