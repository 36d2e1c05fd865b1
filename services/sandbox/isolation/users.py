"""User ids for programs, unique on the machine."""

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from services.contracts.errors import ConfigurationError

SLOTS = 4096
"""Number of ids reserved per service."""

# Above the range that systemd assigns to containers, within 31 bits.
_UNUSED = range(1_900_000_000, 1_900_000_000 + 4096 * SLOTS, SLOTS)
_NOBODY = 65534
_SYSTEM_USERS = 1000
_MAX_SERVICES = 8


class Users:
    """`SLOTS` consecutive ids from ``first``, reserved as long as this object lives.

    The reservation is an abstract socket name, which the kernel keeps unique and releases when the
    process dies.
    """

    def __init__(self, first: int) -> None:
        """Reserve them; raises OSError if they are taken."""
        self.first = first
        self._claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._claim.bind(f"\0temper-sandbox-users-{first}")
        except OSError:
            self._claim.close()
            raise

    def __del__(self) -> None:
        self._claim.close()


def claim_users() -> Users | None:
    """Reserve ids for programs; None if this process is not root and has none to give.

    Raises `ConfigurationError` if other services have taken all of them.
    """
    candidates = free_users()
    for first in candidates:
        with contextlib.suppress(OSError):
            return Users(first)
    if candidates:
        raise ConfigurationError("other sandboxes on this machine have reserved all user ids")
    return None


def free_users(user_map: str | None = None) -> list[int]:
    """First ids of ranges of `SLOTS` ids that this process may give to programs; empty unless root.

    Picked at random, because reservations do not reach across containers, while the kernel counts
    processes per user over all of them. In a container with a short id map, they are the last ones
    below "nobody". ``user_map`` defaults to the contents of ``/proc/self/uid_map``.
    """
    if os.geteuid() != 0:
        return []
    text = Path("/proc/self/uid_map").read_text() if user_map is None else user_map
    mapped = list(_ranges(text))
    end = max((min(ids.stop, _NOBODY) for ids in mapped), default=0)
    unused = [first for first in _UNUSED if any(_within(first, ids) for ids in mapped)]
    picked = secrets.SystemRandom().sample(unused, min(_MAX_SERVICES, len(unused)))
    last = (end - number * SLOTS for number in range(1, _MAX_SERVICES))
    low = [first for first in last if first > _SYSTEM_USERS]
    return picked + [first for first in low if any(_within(first, ids) for ids in mapped)]


def _within(first: int, ids: range) -> bool:
    return first in ids and first + SLOTS - 1 in ids


def _ranges(user_map: str) -> Iterator[range]:
    for line in user_map.splitlines():
        first, _, count = (int(number) for number in line.split())
        yield range(first, first + count)
