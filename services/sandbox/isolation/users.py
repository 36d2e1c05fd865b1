"""User ids for programs that nobody else on the machine has."""

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from services.contracts.errors import ConfigurationError

SLOTS = 4096
"""How many ids are set aside."""

# Between what systemd gives to containers and what 31 bits hold.
_UNUSED = range(1_900_000_000, 1_900_000_000 + 4096 * SLOTS, SLOTS)
_NOBODY = 65534
_SYSTEM_USERS = 1000
_MOST_SERVICES = 8


class Users:
    """`SLOTS` ids in a row, from ``first`` on, that no other service on this machine gives out.

    They are this one's for as long as this object lives. The claim is the name of a socket: the
    kernel keeps it single, and takes it back from a process that is killed.
    """

    def __init__(self, first: int) -> None:
        """Claim them; raises OSError when they are taken."""
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
    """Claim ids for programs; None unless this process is root and may give some.

    Raises `ConfigurationError` when all are taken by other services.
    """
    candidates = free_users()
    for first in candidates:
        with contextlib.suppress(OSError):
            return Users(first)
    if candidates:
        raise ConfigurationError("other sandboxes on this machine have taken all user ids")
    return None


def free_users(user_map: str | None = None) -> list[int]:
    """Return where `SLOTS` ids in a row begin that this process may give to programs.

    Empty unless it is root. They are picked at random: claims do not reach from one container
    into another, but the kernel counts the processes of a user over all of them. In a container
    whose own map of ids ends lower, they are the last ones below "nobody". ``user_map`` is the
    text of ``/proc/self/uid_map``, read by default.
    """
    if os.geteuid() != 0:
        return []
    text = Path("/proc/self/uid_map").read_text() if user_map is None else user_map
    mapped = list(_ranges(text))
    end = max((min(ids.stop, _NOBODY) for ids in mapped), default=0)
    unused = [first for first in _UNUSED if any(_within(first, ids) for ids in mapped)]
    picked = secrets.SystemRandom().sample(unused, min(_MOST_SERVICES, len(unused)))
    last = (end - number * SLOTS for number in range(1, _MOST_SERVICES))
    low = [first for first in last if first > _SYSTEM_USERS]
    return picked + [first for first in low if any(_within(first, ids) for ids in mapped)]


def _within(first: int, ids: range) -> bool:
    return first in ids and first + SLOTS - 1 in ids


def _ranges(user_map: str) -> Iterator[range]:
    for line in user_map.splitlines():
        first, _, count = (int(number) for number in line.split())
        yield range(first, first + count)
