"""How ``temper up`` itself may ask a gateway that accepts keys only."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from temper.settings import ClientSettings


@dataclass(frozen=True)
class Access:
    """The key to show the gateway, and the variables with which the gateway accepts it."""

    api_key: str | None = field(repr=False)
    gateway_variables: Mapping[str, str] = field(default_factory=dict, repr=False)


def access_of(settings: ClientSettings) -> Access:
    """Return the access that the settings give, or one that lasts as long as the stack.

    The latter where the gateway wants a key and the settings have none: the key stays in this
    process's memory, and only its hash goes to the gateway.
    """
    if settings.api_key is not None:
        return Access(settings.api_key.get_secret_value())
    if not settings.api_key_hashes.strip(" ,"):
        return Access(None)
    key = secrets.token_urlsafe(32)
    own = hashlib.sha256(key.encode()).hexdigest()
    return Access(key, {"TEMPER_API_KEY_HASHES": f"{settings.api_key_hashes},{own}"})
