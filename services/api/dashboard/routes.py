"""/ui: the dashboard's pages and browser sessions."""

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from services.api.context import Gateway
from services.api.dashboard.assets import (
    PAGE,
    SCRIPTS,
    Asset,
    build_assets,
    compress,
    make_asset,
)
from services.contracts.base import Resource
from services.contracts.errors import AuthenticationFailed, NotFound
from services.core.web.auth import ANONYMOUS, Principal
from services.jobs.names import file_names, job_names

PREFIX = "/ui"
ASSETS = build_assets()
HEADERS = {
    "Content-Security-Policy": ASSETS.policy,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept-Encoding",
}

MAX_NAMED = 100
"""Ids per request for names."""

router = APIRouter(include_in_schema=False)


class BrowserSession(Resource):
    """Whether this browser may use the gateway."""

    keys_required: bool
    signed_in: bool


class Names(Resource):
    """Names by id, without those of unknown jobs and files."""

    names: dict[str, str]


Named = Annotated[list[str], Query(max_length=MAX_NAMED)]


@router.get("/")
async def home() -> RedirectResponse:
    """Redirect to the dashboard."""
    return RedirectResponse(PREFIX)


@router.get(f"{PREFIX}/session")
async def session(gateway: Gateway, request: Request) -> BrowserSession:
    """Return whether the page must ask for a key."""
    try:
        principal = gateway.authenticator(request)
    except AuthenticationFailed:
        return BrowserSession(keys_required=True, signed_in=False)
    return BrowserSession(keys_required=principal != ANONYMOUS, signed_in=True)


@router.post(f"{PREFIX}/session", status_code=204)
async def sign_in(gateway: Gateway, request: Request, principal: Principal) -> Response:
    """Set the session cookie for the key in the Authorization header."""
    response = Response(status_code=204)
    if principal != ANONYMOUS:
        is_https = request.url.scheme == "https"
        gateway.sessions.sign_in(response, principal, is_https=is_https)
    return response


@router.delete(f"{PREFIX}/session", status_code=204)
async def sign_out(gateway: Gateway) -> Response:
    """Delete the session cookie."""
    response = Response(status_code=204)
    gateway.sessions.sign_out(response)
    return response


@router.get(f"{PREFIX}/openapi.json")
async def description(request: Request) -> Response:
    """Serve /openapi.json, from which forms are generated, compressed and revalidated."""
    return _answer(request, *_description(request.app))


@lru_cache(maxsize=1)
def _description(app: FastAPI) -> tuple[Asset, Asset]:
    plain = make_asset(bytes(JSONResponse(app.openapi()).body), "application/json")
    return plain, compress(plain)


@router.get(f"{PREFIX}/names")
def names(gateway: Gateway, _principal: Principal, of: Named) -> Names:
    """Return the names of jobs and files that a page knows by id, such as those of an alert."""
    with gateway.database.read() as session:
        return Names(names=file_names(session, of) | job_names(session, of))


@router.get(PREFIX)
@router.get(f"{PREFIX}/{{path:path}}")
async def page(request: Request, path: str = "") -> Response:
    """Serve a file; any other path is a view, which the single page routes itself."""
    if path.startswith(SCRIPTS) and path not in ASSETS.plain:
        raise NotFound(f"no script {path[:200]!r}: the dashboard has changed, reload the page")
    name = path if path in ASSETS.plain else PAGE
    return _answer(request, ASSETS.plain[name], ASSETS.compressed[name])


def _answer(request: Request, plain: Asset, compressed: Asset) -> Response:
    asset = compressed if _accepts_gzip(request) else plain
    headers = {**HEADERS, "ETag": asset.etag, "Cache-Control": asset.caching}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    if asset.is_gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _accepts_gzip(request: Request) -> bool:
    """Whether a request's Accept-Encoding accepts gzip (RFC 9110, section 12.5.3)."""
    for each in request.headers.get("accept-encoding", "").lower().replace(" ", "").split(","):
        coding, _, weight = each.partition(";q=")
        if coding == "gzip":
            return weight.strip("0.") != "" if weight else True
    return False
