"""Where programs may connect: destinations and the allow-list."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Self

import idna

from services.core.addresses import Address, is_public, plain

_HOST_AND_PORT = re.compile(r"(?P<host>.+):(?P<port>[0-9]{1,5})", re.DOTALL)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253


@dataclass(frozen=True)
class Destination:
    """A host, by lower-case name or by address, and a TCP port.

    Normalized, so that equal destinations compare equal: names are ASCII without a trailing dot,
    IPv4-mapped addresses become IPv4.
    """

    host: str | Address
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse HOST:PORT, with IPv6 addresses in brackets; raises ValueError."""
        match = _HOST_AND_PORT.fullmatch(text)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise ValueError(f"{text!r} is not HOST:PORT")
        try:
            return cls(_host(match["host"]), int(match["port"]))
        except ValueError as error:
            raise ValueError(f"{text!r} is not HOST:PORT: {error}") from None

    def __str__(self) -> str:
        host = f"[{self.host}]" if isinstance(self.host, IPv6Address) else self.host
        return f"{host}:{self.port}"


def _host(text: str) -> str | Address:
    if text.startswith("[") and text.endswith("]"):
        address = IPv6Address(text[1:-1])
        if address.scope_id is not None:
            raise ValueError("an address with a zone means nothing beyond its link")
        return plain(address)
    try:
        return IPv4Address(text)
    except ValueError:
        return _name(text)


def _name(text: str) -> str:
    if not text.isascii():
        text = idna.encode(text, uts46=True).decode()
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("the host is neither a name nor an address")
    # The C library would parse it as an address in an old notation.
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError("the host is neither a name nor a complete address")
    return name


_ANY_BELOW = "*."


class AllowList:
    """Destinations by name, by address, or by domain (``*.example.org:443``); ports are exact.

    A domain entry does not include the domain itself. Raises ValueError for a malformed entry.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        parsed = [parse_entry(entry) for entry in entries]
        self._exact = frozenset(destination for destination, below in parsed if not below)
        self._domains = frozenset(destination for destination, below in parsed if below)

    def allows(self, destination: Destination) -> bool:
        """Whether programs may request it."""
        return destination in self._exact or not self._domains.isdisjoint(_domains_of(destination))

    def leads_to(self, address: Address, port: int) -> bool:
        """Whether a connection may go to an address that an allowed name resolves to.

        The name's owner must not get access to the operator's networks: addresses that are
        not public must be listed themselves.
        """
        return is_public(address) or Destination(plain(address), port) in self._exact


def parse_entry(text: str) -> tuple[Destination, bool]:
    """Parse an entry into a destination and whether it is a wildcard; raises ValueError."""
    below = text.startswith(_ANY_BELOW)
    destination = Destination.parse(text.removeprefix(_ANY_BELOW))
    if below and not isinstance(destination.host, str):
        raise ValueError(f"{text!r} is not HOST:PORT: nothing is below an address")
    return destination, below


def _domains_of(destination: Destination) -> Iterable[Destination]:
    if isinstance(destination.host, str):
        _, dot, domain = destination.host.partition(".")
        while dot:
            yield Destination(domain, destination.port)
            _, dot, domain = domain.partition(".")
