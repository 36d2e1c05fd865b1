"""How ``temper up`` and its services find each other, also where only keys open doors."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from temper.settings import ClientSettings
from temper.stack.services import TOOLS, USERS_OF_TOOLS, Address, Service

HASHES = "TEMPER_API_KEY_HASHES"


@dataclass(frozen=True)
class Access:
    """The key to show the gateway, and what each service is told in its environment."""

    api_key: str | None = field(repr=False)
    variables: Mapping[Service, Mapping[str, str]] = field(repr=False)


def access_of(settings: ClientSettings, addresses: Mapping[Service, Address]) -> Access:
    """Return the access that the settings give, or keys that last as long as the stack.

    The latter where services want a key and the settings have none: a key is known to who shows
    it, and only its hash to who accepts it. So are those that the gateway, and the workers whose
    models call tools, show the tools of the stack, which are at their ``addresses``.
    """
    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    is_open = not settings.api_key_hashes.strip(" ,")
    variables: dict[Service, dict[str, str]] = {each: {} for each in USERS_OF_TOOLS}
    if key is None and not is_open:
        key = secrets.token_urlsafe(32)
        variables[Service.API][HASHES] = _with(settings, key)
    for service, tool in TOOLS.items():
        if service not in addresses:
            continue
        told = {tool.url_variable: addresses[service].url}
        variables[service] = {}
        if not is_open:
            told[tool.key_variable] = secrets.token_urlsafe(32)
            variables[service][HASHES] = _with(settings, told[tool.key_variable])
        for each in USERS_OF_TOOLS:
            variables[each] |= told
    return Access(key, variables)


def _with(settings: ClientSettings, key: str) -> str:
    return f"{settings.api_key_hashes},{hashlib.sha256(key.encode()).hexdigest()}"
