"""The list of destinations that an operator opens to programs."""

from collections.abc import Iterable

from services.sandbox.network.destinations import Address, Destination, is_public, plain

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
