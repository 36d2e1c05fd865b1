"""API keys: settings, verification, and the dependencies of routes.

A service stores only the SHA-256 of each key. `app.state.context` holds the authenticators.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any

from fastapi import Depends, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
)
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode, SettingsConfigDict
from starlette.types import ASGIApp, Receive, Scope, Send

from services.contracts.errors import AuthenticationFailed, ConfigurationError, PermissionDenied
from services.core.settings import CommaSeparated, ProcessSettings, split_commas
from services.core.web.errors import error_answer

ANONYMOUS = "anonymous"
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})


def hash_key(key: str) -> str:
    """The SHA-256 of a key. Keys are random, so no salt or slow hash is needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def check_exposure(host: str, key_hashes: Sequence[str], keyless_allowed: bool) -> None:
    """Refuse to listen beyond loopback without keys; raises `ConfigurationError`."""
    if key_hashes or keyless_allowed or is_loopback(host):
        return
    raise ConfigurationError(
        f"listening on {host} needs API keys: set TEMPER_API_KEY_HASHES "
        "(`temper keys new` makes a key), or TEMPER_ALLOW_KEYLESS=true behind a private network"
    )


def is_loopback(host: str) -> bool:
    """Whether an address or name refers to this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def known_hash(key: str, key_hashes: Sequence[str]) -> str | None:
    """The hash of a key that is among these; None of an unknown key."""
    given = hash_key(key)
    return next((known for known in key_hashes if hmac.compare_digest(given, known)), None)


class Authenticator:
    """Authenticates requests by API key.

    With ``basic``, a key is also accepted as the password of HTTP Basic, under any user name:
    clients that know only a URL send it that way (``http://x:KEY@host/run_code``). Anthropic's
    clients send it as ``x-api-key``. ``session`` finds the principal of a browser that has signed
    in.
    """

    def __init__(
        self,
        key_hashes: Sequence[str],
        *,
        basic: bool = False,
        session: Callable[[Request], str | None] | None = None,
    ) -> None:
        self._hashes = tuple(key_hashes)
        self._basic = basic
        self._session = session

    def __call__(self, request: Request) -> str:
        """Return the principal, or raise `AuthenticationFailed`.

        A principal is the hash of its key: stable, and useless to an attacker.
        """
        if not self._hashes:
            return ANONYMOUS
        key = self._key(request.headers.get("authorization", ""))
        key = key or request.headers.get("x-api-key", "").strip()
        if not key and self._session and (principal := self._session(request)) is not None:
            return principal
        if not key:
            raise AuthenticationFailed("send an API key: Authorization: Bearer <key>")
        known = known_hash(key, self._hashes)
        if known is None:
            raise AuthenticationFailed("unknown API key")
        return known

    def _key(self, header: str) -> str:
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "bearer":
            return value.strip()
        if scheme.lower() == "basic" and self._basic:
            return _password(value.strip())
        return ""


def _password(credentials: str) -> str:
    """The password of Basic credentials; empty when malformed."""
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return ""
    return decoded.partition(":")[2]


def _key_hash(text: str) -> str:
    if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
        raise ValueError("not the SHA-256 of a key; `temper keys new` prints one")
    return text.lower()


KeyHash = Annotated[str, AfterValidator(_key_hash)]


class KeyFirst:
    """ASGI middleware that refuses requests without a valid key before their bodies are read.

    FastAPI parses bodies before it runs the dependency of the route, which still decides which
    scheme the route accepts.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond 401; 403 for a foreign page in a browser's session."""
        if scope["type"] == "http" and scope["method"] not in BODILESS:
            try:
                scope["app"].state.context.tool_authenticator(Request(scope))
            except (AuthenticationFailed, PermissionDenied) as error:
                await error_answer(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class AccessSettings(ProcessSettings):
    """Who may use a service."""

    # A key set in place of its hash must not appear in the error message.
    model_config = SettingsConfigDict(hide_input_in_errors=True)

    api_key_hashes: Annotated[list[KeyHash], NoDecode, BeforeValidator(split_commas)] = Field(
        default=[], repr=False, description="SHA-256 of each accepted key, comma-separated."
    )
    allow_keyless: bool = Field(
        default=False, description="Listen beyond loopback without keys (a private network)."
    )
    allowed_hosts: Annotated[CommaSeparated, BeforeValidator(split_commas)] = Field(
        default=[],
        description="Host names with a dot under which a service without keys may be used, "
        "comma-separated; addresses and names without a dot always may.",
    )

    @property
    def keyless_hosts(self) -> list[str] | None:
        """The host names of a service without keys; None when keys are required."""
        return None if self.api_key_hashes else self.allowed_hosts


_bearer = HTTPBearer(auto_error=False, description="An API key, where the operator set any.")
_basic = HTTPBasic(auto_error=False, description="The same key as a password, under any name.")


async def _principal(
    request: Request,
    _documented: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> str:
    return _caller(request)


async def _tool_principal(
    request: Request,
    _bearer_documented: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    _basic_documented: Annotated[HTTPBasicCredentials | None, Security(_basic)],
) -> str:
    return _caller_of_a_tool(request)


Principal = Annotated[str, Depends(_principal)]
"""The authenticated caller: the SHA-256 of its key, or ``anonymous``."""

ToolPrincipal = Annotated[str, Depends(_tool_principal)]
"""The caller of a tool route, which also accepts the key in the URL (HTTP Basic)."""


class DirectRoute(APIRoute):
    """A route whose endpoint takes exactly (request, application context, `Principal`).

    It is documented like any other route but called without FastAPI's dependency resolution, which
    takes a third of the time of a request.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """A handler that passes the three arguments."""

        async def handle(request: Request) -> Response:
            caller = self._caller(request)
            response: Response = await self.endpoint(request, request.app.state.context, caller)
            return response

        return handle

    @staticmethod
    def _caller(request: Request) -> str:
        return _caller(request)


class DirectToolRoute(DirectRoute):
    """A `DirectRoute` for a `ToolPrincipal`."""

    @staticmethod
    def _caller(request: Request) -> str:
        return _caller_of_a_tool(request)


def _caller(request: Request) -> str:
    authenticator: Authenticator = request.app.state.context.authenticator
    return authenticator(request)


def _caller_of_a_tool(request: Request) -> str:
    authenticator: Authenticator = request.app.state.context.tool_authenticator
    return authenticator(request)
