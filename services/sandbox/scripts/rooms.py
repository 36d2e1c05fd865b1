"""Rooms: a pool per script that exposes its own folders and destination only.

A zygote's mounts are fixed before it forks, so a script with folders of its own needs a zygote of
its own; they stay hidden from every other script. The second it takes to start does not matter to
a script that runs for hours.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.tiers import Isolation
from services.sandbox.network.destinations import AllowList
from services.sandbox.network.proxy import Network
from services.sandbox.pool.assembly import create_pool
from services.sandbox.pool.pool import Capacity, Pool, slot_numbers
from services.sandbox.pool.zygote import BASE

NETWORK_SETTING = "TEMPER_SANDBOX_SCRIPT_NETWORK"

_PROFILES = (BASE,)
_CPU_WEIGHT = 0.25
"""Clients wait for ordinary programs, which therefore come first."""


@dataclass(frozen=True)
class Room:
    """A script's disk quota, read-only folders, and destinations."""

    disk_bytes: int
    folders: Sequence[Path]
    destinations: Sequence[str]


@dataclass(frozen=True)
class Rooms:
    """Makes rooms, at most ``limit`` concurrently."""

    python: Path
    isolation: Isolation
    cgroups: Cgroups
    processes: int
    cores: float
    limit: int

    @property
    def slot_numbers(self) -> int:
        """How many of the lowest slot numbers are reserved for rooms."""
        return self.limit * slot_numbers(self._capacity(1), _PROFILES)

    @asynccontextmanager
    async def open(self, number: int, room: Room) -> AsyncIterator[Pool]:
        """A pool for one script, torn down on exit.

        Rooms that are open concurrently have distinct numbers below ``limit``. Raises
        `ConfigurationError` if a script could not read its folders, and `SandboxFailure`.
        """
        capacity = self._capacity(room.disk_bytes)
        network = None
        if room.destinations:
            network = Network(AllowList(room.destinations), NETWORK_SETTING)
        pool = create_pool(
            self.python,
            self.isolation,
            self.cgroups,
            capacity,
            [str(folder) for folder in room.folders],
            network,
            first_number=number * slot_numbers(capacity, _PROFILES),
            profiles=_PROFILES,
        )
        try:
            await pool.start()
            yield pool
        finally:
            await pool.close()

    def _capacity(self, disk_bytes: int) -> Capacity:
        return Capacity(
            programs=1,
            sessions=0,
            processes=self.processes,
            disk_bytes=disk_bytes,
            cores=self.cores,
            cpu_weight=_CPU_WEIGHT,
        )
