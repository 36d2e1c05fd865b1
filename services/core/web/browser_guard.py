"""Protect services without keys from web pages: CSRF and DNS rebinding.

A malicious page can make its reader's browser send requests to any address that the reader's
machine reaches. Cross-site requests (CSRF) carry the page's Origin and are refused. With DNS
rebinding the page's own host name resolves to that address, so that requests are same-origin; they
carry that name in Host and are refused unless it is allowed.
"""

import ipaddress
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from services.contracts.errors import PermissionDenied
from services.core.web.errors import error_answer
from services.core.web.middleware import header


class BrowserGuard:
    """ASGI middleware that answers 403 to requests with a foreign Origin or Host.

    IP addresses and host names without a dot cannot be rebound by a stranger and are always
    accepted; other host names must be among ``allowed_hosts``. Pages of ``origins`` may use the
    service.
    """

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: Collection[str], origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._names = HostNames(allowed_hosts, origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond 403."""
        refusal = self._names.refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await error_answer(refusal)(scope, receive, send)


class HostNames:
    """The accepted host names, of which those with a dot must be in ``allowed_hosts``, and the
    ``origins`` of other sites whose pages are accepted."""

    def __init__(self, allowed_hosts: Collection[str], origins: Collection[str] = ()) -> None:
        self._allowed = frozenset(host.lower() for host in allowed_hosts)
        self._origins = frozenset(origins)

    def refusal(self, scope: Scope) -> PermissionDenied | None:
        """Why a request is refused; None if it is not."""
        host, origin = header(scope, b"host") or "", header(scope, b"origin")
        if not self._is_ours(host):
            return PermissionDenied(
                f"{host[:200]!r} is not a name of this service; "
                "TEMPER_ALLOWED_HOSTS names those that hold a dot",
                code="unknown_host",
            )
        if origin is None or origin in self._origins:
            return None
        if _address(origin) != host.lower():
            return PermissionDenied(
                f"pages of {origin[:200]!r} may not use this service without a key",
                code="foreign_origin",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name is None:
            return False
        return "." not in name or name in self._allowed or _is_address(name)


# Nearly all requests have the same Host header.
@lru_cache(maxsize=64)
def _name(host: str) -> str | None:
    """The host name or address of a Host header; None when it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _address(origin: str) -> str | None:
    """Host and port of an Origin, as in a Host header; None for an opaque origin."""
    return origin.lower().partition("://")[2] or None


@lru_cache(maxsize=64)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
