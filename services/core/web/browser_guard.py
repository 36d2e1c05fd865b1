"""Keeping web pages away from a service that asks for no key."""

import ipaddress
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from services.contracts.errors import PermissionDenied
from services.core.web.errors import error_answer
from services.core.web.request_id import header


class BrowserGuard:
    """ASGI middleware that refuses what a stranger's page makes a browser send.

    A page may send requests to any address that its reader's machine reaches; they carry the
    page's origin. With a name of its own that it lets point to such an address it becomes the
    same origin; the request then carries that name. Addresses and names without a dot cannot be
    made to point elsewhere by a stranger; other names have to be among ``allowed_hosts``.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self._names = HostNames(allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        refusal = self._names.refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await error_answer(refusal)(scope, receive, send)


class HostNames:
    """The names under which a service may be used; those with a dot are ``allowed_hosts``."""

    def __init__(self, allowed_hosts: Collection[str]) -> None:
        self._allowed = frozenset(host.lower() for host in allowed_hosts)

    def refusal(self, scope: Scope) -> PermissionDenied | None:
        """Why a request is not answered, unless it is."""
        host, origin = header(scope, b"host") or "", header(scope, b"origin")
        if not self._is_ours(host):
            return PermissionDenied(
                f"{host[:200]!r} is not a name of this service; "
                "TEMPER_ALLOWED_HOSTS names those that hold a dot",
                code="unknown_host",
            )
        if origin is not None and _address(origin) != host.lower():
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


# Nearly all requests of a service come under one name.
@lru_cache(maxsize=64)
def _name(host: str) -> str | None:
    """The name or address in a Host header; None where there is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _address(origin: str) -> str | None:
    """Host and port of an origin, as a Host header writes them; None for an opaque one."""
    return origin.lower().partition("://")[2] or None


@lru_cache(maxsize=64)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
