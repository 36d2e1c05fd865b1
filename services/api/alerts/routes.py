"""/v1/alerts."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.alerts.service import list_alerts
from services.api.context import Gateway
from services.contracts.alerts import Alert
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of

router = APIRouter(
    prefix="/v1/alerts", tags=["alerts"], responses=documented_errors(AuthenticationFailed)
)

About = Annotated[str | None, Query(max_length=80, description="Only alerts of this job.")]
Resolved = Annotated[bool, Query(description="Include alerts that are resolved.")]


@router.get("", summary="List alerts", responses=documented_errors(InvalidRequest, NotFound))
def list_all(
    gateway: Gateway,
    _principal: Principal,
    job: About = None,
    resolved: Resolved = False,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Alert]:
    """List what goes wrong now in jobs and on the gateway's disk, newest first."""
    with gateway.database.read() as session:
        alerts, has_more = list_alerts(
            session, job_id=job, resolved=resolved, after=after, limit=limit
        )
    return page_of(alerts, has_more)
