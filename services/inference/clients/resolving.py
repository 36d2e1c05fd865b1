"""Resolution of the host names that requests lead to, without those of cloud metadata."""

import socket
from ipaddress import ip_address, ip_network

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from services.core.addresses import underlying
from services.inference.clients.retries import FailureKind, ServiceFailed

_REFUSED = [
    ip_network(each)
    for each in (
        "169.254.0.0/16",  # link-local: metadata and credentials of AWS, Azure, Google and others
        "fe80::/10",
        "fd00:ec2::/32",  # AWS
        "fd20:ce::/32",  # Google
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure's host agent
        "192.0.0.192/32",  # Oracle
    )
]


class GuardedResolver(AbstractResolver):
    """Resolves names, but refuses those that lead to a link-local or a metadata address.

    Such an address hands out the credentials of the machine. The owner of an allowed name
    decides where it leads; an address in a URL was allowed by the operator as such, and is not
    resolved.
    """

    def __init__(self) -> None:
        self._resolver = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name; raises a final `ServiceFailed` if it must not be reached."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            if is_refused(each["host"]):
                raise ServiceFailed(
                    f"{host} leads to {each['host']}, a link-local or metadata address, which only "
                    "an endpoint that is allowed by this address itself may have",
                    FailureKind.FINAL,
                )
        return found

    async def close(self) -> None:
        """Release the resolver."""
        await self._resolver.close()


def is_refused(address: str) -> bool:
    """Whether an address, in any of its IPv6 forms, is link-local or of cloud metadata."""
    parsed = underlying(ip_address(address.partition("%")[0]))
    return any(parsed in network for network in _REFUSED if network.version == parsed.version)
