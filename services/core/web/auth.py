"""API keys: bearer tokens of which only the SHA-256 is known to the service."""

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Sequence

from fastapi import Request

from services.contracts.errors import AuthenticationFailed, ConfigurationError

ANONYMOUS = "anonymous"


def hash_key(key: str) -> str:
    """The form in which a key is configured; keys are random, so a plain hash is enough."""
    return hashlib.sha256(key.encode()).hexdigest()


def check_exposure(host: str, key_hashes: Sequence[str], keyless_allowed: bool) -> None:
    """Refuse to listen without keys where others can connect."""
    if key_hashes or keyless_allowed or is_loopback(host):
        return
    raise ConfigurationError(
        f"listening on {host} needs API keys: set TEMPER_API_KEY_HASHES "
        "(`temper keys new` makes a key), or TEMPER_ALLOW_KEYLESS=true behind a private network"
    )


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Authenticator:
    """The dependency that every protected route has; it returns who asks.

    With ``basic``, a key is also taken as the password of HTTP's Basic scheme, under any name:
    clients that can be told nothing but a URL send it so (``http://x:KEY@host/run_code``).
    """

    def __init__(self, key_hashes: Sequence[str], *, basic: bool = False) -> None:
        self._hashes = tuple(key_hashes)
        self._basic = basic

    def __call__(self, request: Request) -> str:
        """Return the principal, or raise `AuthenticationFailed`.

        A principal is the hash of its key: stable, and useless to whoever reads it.
        """
        if not self._hashes:
            return ANONYMOUS
        key = self._key(request.headers.get("authorization", ""))
        if not key:
            raise AuthenticationFailed("send an API key: Authorization: Bearer <key>")
        given = hash_key(key)
        for known in self._hashes:
            if hmac.compare_digest(given, known):
                return known
        raise AuthenticationFailed("unknown API key")

    def _key(self, header: str) -> str:
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "bearer":
            return value.strip()
        if scheme.lower() == "basic" and self._basic:
            return _password(value.strip())
        return ""


def _password(credentials: str) -> str:
    """The password of Basic credentials; empty when they hold none."""
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return ""
    return decoded.partition(":")[2]
