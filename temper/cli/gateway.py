"""The gateway that a command talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from temper.client import Temper
    from temper.settings import ClientSettings


def connect() -> Temper:
    """Return a client of the configured gateway."""
    from temper.settings import load_settings

    settings = load_settings()
    return client_of(gateway_url(settings), settings)


def client_of(url: str, settings: ClientSettings) -> Temper:
    """Return a client of the gateway at ``url`` with the configured key."""
    from temper.client import Temper

    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    return Temper(url, key)


def gateway_url(settings: ClientSettings) -> str:
    """Return the configured URL, else the running local stack's, else the default."""
    from temper.client import DEFAULT_URL
    from temper.stack.state import StackFile

    if settings.api_url:
        return settings.api_url
    stack = StackFile(settings.home).running()
    return stack.url if stack is not None else DEFAULT_URL


def default_port(settings: ClientSettings) -> int:
    """Return the port on which other commands look for a local stack."""
    from temper.client import DEFAULT_URL
    from temper.settings import InvalidSetting

    try:
        return urlsplit(settings.api_url or DEFAULT_URL).port or 80
    except ValueError as error:
        raise InvalidSetting(f"TEMPER_API_URL: {error}") from error
