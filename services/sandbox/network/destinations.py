"""Where programs may connect: destinations and the allow-list."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Self

import idna

Address = IPv4Address | IPv6Address

_HOST_AND_PORT = re.compile(r"(?P<host>.+):(?P<port>[0-9]{1,5})", re.DOTALL)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253
_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class Destination:
    """A host, by its name in lower case or by its address, and a TCP port.

    Two that mean the same are equal: names lose their last dot and become ASCII, IPv4 addresses
    within IPv6 become what they are.
    """

    host: str | Address
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST:PORT; an IPv6 address stands in brackets. Raises ValueError."""
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


def plain(address: Address) -> Address:
    """The address itself: without the IPv6 form that an IPv4 address can be written in."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_public(address: Address) -> bool:
    """Whether an address is a single host's of the public internet.

    It is not when it is this machine's own, of a private network, of a link (where clouds keep
    their metadata), a group's or reserved, nor when it is the IPv6 form of such a one.
    """
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _TRANSLATED:
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    if inner is not None:
        return is_public(inner)
    return address in _UNICAST and address.is_global


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
    # The C library would take it for an address in one of its older notations.
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError("the host is neither a name nor a complete address")
    return name


_ANY_BELOW = "*."


class AllowList:
    """Destinations by name, by address, or below a domain (``*.example.org:443``); ports exact.

    The domain itself is not below it. Raises ValueError for an entry that is none.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        parsed = [parse_entry(entry) for entry in entries]
        self._exact = frozenset(destination for destination, below in parsed if not below)
        self._domains = frozenset(destination for destination, below in parsed if below)

    def allows(self, destination: Destination) -> bool:
        """Whether programs may ask for it."""
        return destination in self._exact or not self._domains.isdisjoint(_domains_of(destination))

    def leads_to(self, address: Address, port: int) -> bool:
        """Whether a connection may go to what an allowed name turned out to stand for.

        A name in somebody else's hands must not open the operator's own networks: addresses that
        are not public have to be listed themselves.
        """
        return is_public(address) or Destination(plain(address), port) in self._exact


def parse_entry(text: str) -> tuple[Destination, bool]:
    """Read an entry: a destination, and whether what is below its name is meant, not itself.

    Raises ValueError.
    """
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
