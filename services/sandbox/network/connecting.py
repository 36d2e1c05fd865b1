"""Connects to the destinations that programs request, as far as the allow-list permits."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from ipaddress import IPv4Address, ip_address

from aiohappyeyeballs import AddrInfoType, start_connection

from services.core.addresses import Address, plain
from services.sandbox.network.destinations import AllowList, Destination

SETTING = "TEMPER_SANDBOX_NETWORK_ALLOW"
CONNECT_SECONDS = 10.0

_HEAD_START_SECONDS = 0.25
_MAX_ADDRESSES = 8
_CONCURRENT_LOOKUPS = 8


class Result(StrEnum):
    """Result of a connection through the proxy."""

    ALLOWED = "allowed"
    REFUSED = "refused"  # not on the list
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"  # not a request that a proxy can handle


class NotConnected(Exception):
    """The connection failed; ``message`` is shown to the program."""

    def __init__(self, result: Result, status: int, message: str) -> None:
        super().__init__(message)
        self.result = result
        self.status = status
        self.message = message


class Connector:
    """Connects to allowed destinations directly, never through the service's own proxy.

    A name is resolved once, and the connection goes to the address that was checked (no DNS
    rebinding). Refusals name ``setting``, which holds the allow-list.
    """

    def __init__(self, allow: AllowList, setting: str = SETTING) -> None:
        self._allow = allow
        self._setting = setting
        # Its own pool, so that slow name servers delay nothing else.
        self._lookups = ThreadPoolExecutor(_CONCURRENT_LOOKUPS, thread_name_prefix="lookup")

    async def connect(self, destination: Destination) -> socket.socket:
        """Connect; returns a non-blocking socket. Raises `NotConnected`."""
        if not self._allow.allows(destination):
            raise NotConnected(
                Result.REFUSED,
                403,
                f"{destination} is not listed in {self._setting} of this sandbox",
            )
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                addresses = await self._addresses(destination)
                return await start_connection(
                    [_info(address, destination.port) for address in addresses],
                    happy_eyeballs_delay=_HEAD_START_SECONDS,
                )
        except TimeoutError:
            raise _unreachable(504, destination, "no answer in time") from None
        except (OSError, RuntimeError) as error:  # RuntimeError comes from uvloop
            reason = getattr(error, "strerror", None) or "no connection"
            raise _unreachable(502, destination, reason) from None

    def close(self) -> None:
        """Stop resolving names."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    async def _addresses(self, destination: Destination) -> Sequence[Address]:
        """The allowed addresses of a destination; raises `NotConnected` if there are none."""
        if not isinstance(destination.host, str):
            return [destination.host]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._lookups, _look_up, destination.host)
        allowed = [each for each in found if self._allow.leads_to(each, destination.port)]
        if found and not allowed:
            hidden = Destination(found[0], destination.port)
            raise NotConnected(
                Result.REFUSED,
                403,
                f"{destination} resolves to {hidden}, which is not public; such an address must "
                f"itself be listed in {self._setting} of this sandbox",
            )
        return allowed[:_MAX_ADDRESSES]


def _look_up(name: str) -> list[Address]:
    found = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM)
    addresses = (str(where[0]).partition("%")[0] for *_, where in found)
    return list(dict.fromkeys(plain(ip_address(address)) for address in addresses))


def _info(address: Address, port: int) -> AddrInfoType:
    if isinstance(address, IPv4Address):
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)
    where = (str(address), port, 0, 0)
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where


def _unreachable(status: int, destination: Destination, reason: str) -> NotConnected:
    return NotConnected(Result.UNREACHABLE, status, f"{destination} cannot be reached: {reason}")
