"""How ``temper up`` and its services find each other, also where only keys open doors."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from temper.settings import ClientSettings
from temper.stack.services import Address, Service

HASHES = "TEMPER_API_KEY_HASHES"


@dataclass(frozen=True)
class Access:
    """The key to show the gateway, and what each service is told in its environment."""

    api_key: str | None = field(repr=False)
    variables: Mapping[Service, Mapping[str, str]] = field(repr=False)


def access_of(settings: ClientSettings, sandbox: Address | None) -> Access:
    """Return the access that the settings give, or keys that last as long as the stack.

    The latter where services want a key and the settings have none: a key is known to who shows
    it, and only its hash to who accepts it. So is the one that the gateway shows the stack's
    ``sandbox``.
    """
    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    is_open = not settings.api_key_hashes.strip(" ,")
    of_gateway, of_sandbox = {}, {}
    if key is None and not is_open:
        key = secrets.token_urlsafe(32)
        of_gateway[HASHES] = _with(settings, key)
    if sandbox is not None:
        of_gateway["TEMPER_SANDBOX_URL"] = sandbox.url
        if not is_open:
            of_gateway["TEMPER_SANDBOX_API_KEY"] = secrets.token_urlsafe(32)
            of_sandbox[HASHES] = _with(settings, of_gateway["TEMPER_SANDBOX_API_KEY"])
    return Access(key, {Service.API: of_gateway, Service.SANDBOX: of_sandbox})


def _with(settings: ClientSettings, key: str) -> str:
    return f"{settings.api_key_hashes},{hashlib.sha256(key.encode()).hexdigest()}"
