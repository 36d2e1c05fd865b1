"""The dashboard's page, its scripts and its icon, built once at the start of the gateway."""

import gzip
import json
from base64 import b64encode
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import get_args

from services.api.dashboard.bundle import bundle
from services.contracts.kinds import KINDS
from services.metrics.metric_terms import METRIC_TERMS, PREFIXES, Group

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
KINDS_MODULE = "kinds.js"
"""The module that is generated, from the descriptions of the kinds of job."""

STYLES = ("vendor/uPlot.css", "style/tokens.css", "style/page.css", "style/views.css")

SCRIPTS = "scripts/"
"""The folder of the scripts' names, which change with their content."""

JAVASCRIPT = "text/javascript; charset=utf-8"
FOREVER = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"


@dataclass(frozen=True)
class Asset:
    """A file for the browser."""

    content: bytes
    media_type: str
    etag: str
    caching: str
    is_gzip: bool = False


@dataclass(frozen=True)
class Assets:
    """The files by path, plain and compressed, and the Content-Security-Policy of the page."""

    plain: dict[str, Asset]
    compressed: dict[str, Asset]
    policy: str


def build_assets() -> Assets:
    """Build all files; raises `BundleError`."""
    sources = modules()
    script = bundle(sources, "main.js").encode()
    name = f"{SCRIPTS}dashboard-{_digest(script)}.js"
    worker = bundle(sources, "core/event_worker.js").encode()
    worker_name = f"{SCRIPTS}events-{_digest(worker)}.js"
    style = "".join((STATIC / each).read_text() for each in STYLES)
    loader = sources["loader.js"]
    page = (STATIC / PAGE).read_text()
    inserted = {"style": style, "script": name, "worker": worker_name, "loader": loader}
    for place, text in inserted.items():
        page = page.replace(f"{{{place}}}", text)
    assets = {
        PAGE: make_asset(page.encode(), "text/html; charset=utf-8"),
        "icon.svg": make_asset((STATIC / "icon.svg").read_bytes(), "image/svg+xml"),
        name: make_asset(script, JAVASCRIPT, FOREVER),
        worker_name: make_asset(worker, JAVASCRIPT, FOREVER),
    }
    # Nothing from another origin, no inline script or style but the page's own, no frame.
    policy = (
        f"default-src 'none'; script-src 'self' {_source(loader)}; style-src {_source(style)}; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    compressed = {path: compress(asset) for path, asset in assets.items()}
    return Assets(assets, compressed, policy)


def modules() -> dict[str, str]:
    """The text of every module by its path, with the generated ones."""
    sources = {
        path.relative_to(STATIC).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(STATIC.rglob("*.js"))
    }
    return sources | {KINDS_MODULE: _kinds_module(), "metric_terms.js": _metric_terms()}


def _kinds_module() -> str:
    """The kinds of job for the dashboard's modules: the path and the queue of each, and whether
    its jobs have trajectories."""
    kinds = {
        kind.name: {
            "path": kind.path,
            "queue": kind.queue,
            "hasTrajectories": kind.has_trajectories,
        }
        for kind in KINDS.values()
    }
    return f"export const KINDS = {json.dumps(kinds)};\n"


def _metric_terms() -> str:
    """A module with the table of metrics."""
    terms = [asdict(term) for term in METRIC_TERMS]
    groups = get_args(Group)
    return "".join(
        f"export const {name} = {json.dumps(value)};\n"
        for name, value in {"TERMS": terms, "GROUPS": groups, "PREFIXES": PREFIXES}.items()
    )


def make_asset(content: bytes, media_type: str, caching: str = REVALIDATED) -> Asset:
    """A file with its entity tag."""
    return Asset(content, media_type, f'"{_digest(content)}"', caching)


def compress(asset: Asset) -> Asset:
    """The file, compressed."""
    content = gzip.compress(asset.content, mtime=0)
    etag = f'"{_digest(content)}"'
    return Asset(content, asset.media_type, etag, asset.caching, is_gzip=True)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def _source(text: str) -> str:
    """The source expression that allows an inline script or style (CSP Level 2)."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
