"""/v1/ping, /v1/languages and /v1/isolation: what this host offers."""

from fastapi import APIRouter

from services.contracts.errors import AuthenticationFailed
from services.contracts.sandbox.host import (
    IsolationMeasure,
    IsolationReport,
    LanguageList,
    LanguageStatus,
)
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.sandbox.context import Sandbox

router = APIRouter(prefix="/v1", tags=["host"])


@router.get("/ping", summary="Check that the service is up")
async def ping() -> str:
    """Answer "pong"; needs no authentication."""
    return "pong"


@router.get(
    "/languages",
    summary="List languages",
    responses=documented_errors(AuthenticationFailed),
)
async def languages(sandbox: Sandbox, _principal: ToolPrincipal) -> LanguageList:
    """List every language with its version, or with how to install it."""
    return LanguageList(
        languages=[
            LanguageStatus(
                language=each.language,
                available=each.available,
                version=each.version,
                message=each.message,
            )
            for each in await sandbox.runs.languages.available()
        ]
    )


@router.get(
    "/isolation",
    summary="Show how programs are isolated",
    responses=documented_errors(AuthenticationFailed),
)
async def isolation(sandbox: Sandbox, _principal: ToolPrincipal) -> IsolationReport:
    """List what is enforced on programs, and what is not."""
    chosen = sandbox.isolation
    return IsolationReport(
        tier=chosen.tier,
        minimum_tier=sandbox.settings.sandbox_minimum_tier,
        not_stronger=chosen.not_stronger,
        landlock_abi=chosen.landlock_abi,
        measures=[
            IsolationMeasure(
                name=measure.name, enforced=measure.enforced, description=measure.description
            )
            for measure in chosen.measures
        ],
    )
