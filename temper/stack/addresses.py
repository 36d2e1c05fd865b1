"""Where the services of a local stack listen."""

from collections.abc import Mapping

from temper.settings import ClientSettings
from temper.stack.ports import LOOPBACK, any_free, is_free
from temper.stack.services import TOOLS, Address, Service


def addresses_of(
    settings: ClientSettings, ports: Mapping[Service, int | None]
) -> dict[Service, Address]:
    """Return the addresses by service; there is none for a tool that runs elsewhere.

    A port of 0 is any free one. That of a tool may be None: then it is the usual one while that
    is free, since the gateway is told where its tools are, and unless the gateway's is 0.
    """
    port = ports[Service.API] or 0
    elsewhere = {
        Service.SANDBOX: settings.sandbox_url,
        Service.RETRIEVAL: settings.retrieval_url,
    }
    addresses = {Service.API: _at(port, {})}
    for service, tool in TOOLS.items():
        if elsewhere[service]:
            continue
        own = ports.get(service)
        if own is None:
            own = tool.port if port != 0 and is_free(tool.port) else 0
        addresses[service] = _at(own, addresses)
    return addresses


def _at(port: int, others: Mapping[Service, Address]) -> Address:
    """The address of a port; for 0, of a free one that no other service was given."""
    if port:
        return Address(LOOPBACK, port)
    given = {address.port for address in others.values()}
    while (free := any_free()) in given:
        pass  # nothing listens on it yet, so the system may name it again
    return Address(LOOPBACK, free)
