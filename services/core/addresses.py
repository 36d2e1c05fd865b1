"""Which network addresses belong to the public internet."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")


def plain(address: Address) -> Address:
    """The IPv4 address behind an IPv4-mapped IPv6 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def underlying(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to (mapped, 6to4 or translated), or else itself."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _TRANSLATED:
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    return inner or address


def is_public(address: Address) -> bool:
    """Whether an address belongs to a single host on the public internet.

    Loopback, private, link-local (cloud metadata), multicast and reserved addresses do not, nor do
    their IPv6 forms.
    """
    address = underlying(address)
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    return address in _UNICAST and address.is_global
