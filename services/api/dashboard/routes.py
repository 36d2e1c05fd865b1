"""/ui: the dashboard's pages and browser sessions."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from services.api.context import Gateway
from services.contracts.base import Resource
from services.contracts.errors import AuthenticationFailed
from services.core.web.auth import ANONYMOUS, Principal

STATIC = Path(__file__).parent / "static"
PREFIX = "/ui"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # Nothing from another origin, no inline script, no frame.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Asset:
    """A static file of the dashboard."""

    content: bytes
    media_type: str
    etag: str


def _load() -> dict[str, Asset]:
    """Every static file by its path; requests are served from this map, never from the disk."""
    contents = {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }
    # Fetch all modules in parallel instead of one import level after another.
    modules = (path for path in contents if path.endswith(".js"))
    preloads = "".join(f'<link rel="modulepreload" href="{PREFIX}/{path}">' for path in modules)
    page = contents["index.html"].replace(b"</head>", preloads.encode() + b"</head>")
    return {
        path: _asset(path, content) for path, content in (contents | {"index.html": page}).items()
    }


def _asset(path: str, content: bytes) -> Asset:
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    return Asset(content, MEDIA_TYPES[PurePosixPath(path).suffix], etag)


ASSETS = _load()


class BrowserSession(Resource):
    """Whether this browser may use the gateway."""

    keys_required: bool
    signed_in: bool


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


@router.get(PREFIX)
@router.get(f"{PREFIX}/{{path:path}}")
async def page(request: Request, path: str = "") -> Response:
    """Serve a static file; any other path is a view, which the single page routes itself."""
    asset = ASSETS.get(path) or ASSETS["index.html"]
    headers = {**HEADERS, "ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
