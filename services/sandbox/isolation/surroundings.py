"""What surrounds the service: a container, and a network that leads out or not."""

import os
from ipaddress import IPv4Address
from pathlib import Path

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
_ROUTES = Path("/proc/self/net/route")


def is_container() -> bool:
    """Whether the service runs in a container of Docker or Podman."""
    return any(os.path.exists(mark) for mark in _CONTAINER_MARKS)  # noqa: PTH110 - strings


def default_gateways(table: Path = _ROUTES) -> list[str]:
    """Where packets go that are for no network of the service's own; empty if nowhere.

    ``table`` is the kernel's list of IPv4 routes.
    """
    try:
        rows = [row.split() for row in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    # Interface, destination, gateway, flags, references, uses, metric, mask: little-endian numbers.
    return [
        str(IPv4Address(bytes.fromhex(gateway)[::-1]))
        for _, destination, gateway, _, _, _, _, mask, *_ in rows
        if int(destination, 16) == 0 == int(mask, 16)
    ]
