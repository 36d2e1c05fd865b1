"""Which gateway a command talks to."""

from urllib.parse import urlsplit

from temper.client import DEFAULT_URL, Temper
from temper.settings import ClientSettings, load_settings
from temper.stack.state import StackFile


def connect() -> Temper:
    """Return a client of the gateway that the settings name."""
    settings = load_settings()
    return client_of(gateway_url(settings), settings)


def client_of(url: str, settings: ClientSettings) -> Temper:
    """Return a client of the gateway at ``url``, with the key of the settings."""
    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    return Temper(url, key)


def gateway_url(settings: ClientSettings) -> str:
    """Return the address set, else that of the local stack that runs, else the default."""
    if settings.api_url:
        return settings.api_url
    stack = StackFile(settings.home).running()
    return stack.url if stack is not None else DEFAULT_URL


def default_port(settings: ClientSettings) -> int:
    """Return the port on which a local stack is looked for by the other commands."""
    return urlsplit(settings.api_url or DEFAULT_URL).port or 80
