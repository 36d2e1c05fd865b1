"""Browser sessions: an HttpOnly cookie stands in for an API key.

The cookie holds the key's hash and is signed with a secret of this installation; it is invalid once
the key is removed. It is never sent across sites, and state-changing requests must also have an
Origin of this server.
"""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fastapi import Request, Response

from services.contracts.errors import PermissionDenied
from services.core.web.auth import BODILESS

COOKIE = "temper_session"
LIFETIME_SECONDS = 7 * 24 * 3600
SECRET_FILE = "browser-sessions.key"  # noqa: S105 - the name of a file
_SECRET_BYTES = 32


class BrowserSessions:
    """Issues and verifies session cookies."""

    def __init__(self, home: Path, key_hashes: Sequence[str]) -> None:
        self._secret = _load_secret(home / SECRET_FILE)
        self._key_hashes = tuple(key_hashes)

    def sign_in(self, response: Response, principal: str, *, is_https: bool) -> None:
        """Set the session cookie of a principal."""
        expires = int(time.time()) + LIFETIME_SECONDS
        response.set_cookie(
            COOKIE,
            f"{expires}.{principal}.{self._signature(expires, principal)}",
            max_age=LIFETIME_SECONDS,
            httponly=True,
            samesite="strict",
            secure=is_https,
        )

    @staticmethod
    def sign_out(response: Response) -> None:
        """Delete the cookie."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def principal(self, request: Request) -> str | None:
        """The principal of a request's cookie; None without a valid one.

        Raises `PermissionDenied` for a state-changing request from another origin.
        """
        parts = request.cookies.get(COOKIE, "").split(".")
        if len(parts) != 3 or not parts[0].isdecimal() or len(parts[0]) > 12:
            return None
        expires, principal, signature = int(parts[0]), parts[1], parts[2]
        if expires < time.time() or principal not in self._key_hashes:
            return None
        expected = self._signature(expires, principal).encode()
        if not hmac.compare_digest(expected, signature.encode(errors="replace")):
            return None
        if request.method not in BODILESS and not _is_same_origin(request):
            raise PermissionDenied(
                "a browser session can be used only by this server's own pages",
                code="foreign_origin",
            )
        return principal

    def _signature(self, expires: int, principal: str) -> str:
        return hmac.new(self._secret, f"{expires}.{principal}".encode(), hashlib.sha256).hexdigest()


def _is_same_origin(request: Request) -> bool:
    origin = request.headers.get("origin", "").lower()
    return origin.partition("://")[2] == request.headers.get("host", "").lower() != ""


def _load_secret(path: Path) -> bytes:
    """The secret of this installation, created atomically at the first start."""
    if not path.exists():
        partial = path.with_suffix(f".{secrets.token_hex(6)}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
        with suppress(FileExistsError):  # another gateway was first
            os.link(partial, path)
        partial.unlink()
    return path.read_bytes()
