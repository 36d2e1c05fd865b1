"""Where the services of a local stack listen."""

from temper.settings import ClientSettings
from temper.stack.ports import LOOPBACK, any_free, is_free
from temper.stack.services import SANDBOX_PORT, Address, Service


def addresses_of(
    settings: ClientSettings, port: int, sandbox_port: int | None
) -> dict[Service, Address]:
    """Return the addresses by service; there is none for a sandbox that runs elsewhere.

    A port of 0 is any free one. The ``sandbox_port`` None is the usual one while that is free,
    since the gateway is told where the sandbox is.
    """
    addresses = {Service.API: _at(port)}
    if not settings.sandbox_url:
        if sandbox_port is None:
            sandbox_port = SANDBOX_PORT if port != 0 and is_free(SANDBOX_PORT) else 0
        addresses[Service.SANDBOX] = _at(sandbox_port)
    return addresses


def _at(port: int) -> Address:
    return Address(LOOPBACK, port or any_free())
