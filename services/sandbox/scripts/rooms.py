"""Rooms: a pool for each script, which shows its folders and leads to its destination alone.

A zygote's view of the files is made once, before it forks. So a script that is shown other folders
than ordinary programs needs a zygote of its own, and what is shown to one script is hidden from all
others. The second that this takes is nothing to a script of hours.
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
"""Ordinary programs are waited for by clients."""


@dataclass(frozen=True)
class Room:
    """What one script is given: bytes of files, folders to read, and destinations."""

    disk_bytes: int
    folders: Sequence[Path]
    destinations: Sequence[str]


@dataclass(frozen=True)
class Rooms:
    """Makes rooms; at most ``most`` at once."""

    python: Path
    isolation: Isolation
    cgroups: Cgroups
    processes: int
    cores: float
    most: int

    @property
    def slot_numbers(self) -> int:
        """So many of the lowest numbers are for slots of rooms."""
        return self.most * slot_numbers(self._capacity(1), _PROFILES)

    @asynccontextmanager
    async def open(self, number: int, room: Room) -> AsyncIterator[Pool]:
        """A pool for one script; everything of it is gone afterwards.

        Rooms that are open at the same time have different numbers below ``most``. Raises
        `ConfigurationError` if a script could not reach its folders, and `SandboxFailure`.
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
