"""The pool: runs each program in a fresh fork of a warm process."""

import asyncio
import functools
import heapq
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.sandbox.execution import (
    Execution,
    ExitReason,
    Outcome,
    OutputListener,
    SandboxFailure,
)
from services.sandbox.guest.layout import Configuration
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.tier import Tier
from services.sandbox.network.proxy import Network
from services.sandbox.pool.crowd import Occupant
from services.sandbox.pool.run import SlotLost
from services.sandbox.pool.sessions import SessionProcess
from services.sandbox.pool.slot import Slot
from services.sandbox.pool.warm_pool import WarmPool
from services.sandbox.pool.zygote import ALL, BASE, NOTEBOOK, Profile, Zygote, choose_profile

logger = logging.getLogger(__name__)

_PREFIX = "temper-sandbox-"
_SPARE_SLOTS = 2
_REWARM_SECONDS = 15.0
_MAX_REWARM_SECONDS = 600.0
_OWN_PROCESSES = 2  # of a slot: itself and the reaper of its run
_NOT_STARTED = Outcome(
    exit_reason=ExitReason.TIMED_OUT,
    return_code=None,
    stdout=b"",
    stderr=b"",
    stdout_cut=False,
    stderr_cut=False,
    wall_seconds=0.0,
    cpu_seconds=0.0,
    peak_memory_bytes=0,
    files={},
)


@dataclass(frozen=True)
class Capacity:
    """Bounds of a pool, and of one program's use of everything but memory.

    ``busy`` of the programs, by default all, share the disk where they have none of their own; more
    are admitted only with room left. The processes of one program share ``cores`` processors; when
    they are contended, it gets ``cpu_weight`` times the share of an ordinary program. Slots that
    wait longer than ``idle_seconds`` for a program are retired.
    """

    programs: int
    sessions: int
    processes: int
    disk_bytes: int
    cores: float = 2.0
    cpu_weight: float = 1.0
    open_files: int = 1024
    idle_seconds: float = 60.0
    busy: int | None = None


def slot_numbers(capacity: Capacity, profiles: Sequence[Profile] = ALL) -> int:
    """How many slot numbers a pool uses."""
    return len(profiles) * (capacity.programs + _SPARE_SLOTS) + capacity.sessions


class Pool:
    """Runs programs in slots of warm processes; a `Runner`.

    ``first_user`` is the user id of slot 0 as its zygote sees it, None if slots have no user ids of
    their own. Its slots use `slot_numbers` numbers from ``first_number`` on; pools of one service
    must not share any. It has the zygotes of ``profiles``, `BASE` among them. ``network`` is what
    programs can reach, if anything; the pool closes it.
    """

    def __init__(
        self,
        python: Path,
        configuration: Configuration,
        cgroups: Cgroups,
        *,
        first_user: int | None,
        capacity: Capacity,
        network: Network | None,
        first_number: int = 0,
        profiles: Sequence[Profile] = ALL,
    ) -> None:
        self.network = network
        self._configuration = configuration
        self._cgroups = cgroups
        self._first_user = first_user
        self._capacity = capacity
        max_slots = capacity.programs + _SPARE_SLOTS
        self._attempts = max_slots + 1  # all waiting slots may have been killed
        end = first_number + slot_numbers(capacity, profiles)
        self._free_numbers = list(range(first_number, end))
        self._zygotes = {profile: Zygote(profile, python, configuration) for profile in profiles}
        self._warm_pools = {
            profile: WarmPool(
                capacity.sessions if profile is NOTEBOOK else max_slots,
                functools.partial(self._make_slot, profile),
            )
            for profile in profiles
        }
        self._unavailable = set(ALL).difference(profiles)
        self._chores: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the first zygote now and the others in the background; raises `SandboxFailure`."""
        await self._zygotes[BASE].warm_up()
        self._chores = [
            asyncio.create_task(self._warm_up_others()),
            asyncio.create_task(self._retire_idle_slots()),
        ]

    async def close(self) -> None:
        """Kill every program and process."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await asyncio.gather(*(warm_pool.close() for warm_pool in self._warm_pools.values()))
        await asyncio.gather(*(zygote.close() for zygote in self._zygotes.values()))
        if self.network is not None:
            self.network.close()
        await asyncio.to_thread(remove_folder, Path(self._configuration.root))

    async def run(self, execution: Execution, listener: OutputListener | None = None) -> Outcome:
        """Run to completion; raises `SandboxFailure`. Cancelling this kills the program.

        A program that has started is never run again.
        """
        if execution.limits.seconds <= 0:
            return _NOT_STARTED
        profile = choose_profile(execution.command, execution.imports)
        # Without its warm packages a program still runs, only slower.
        warm_pool = self._warm_pools[BASE if profile in self._unavailable else profile]
        for attempt in range(1, self._attempts + 1):
            slot = await warm_pool.acquire()
            try:
                run = await slot.begin(
                    execution,
                    execution.command,
                    seconds=execution.limits.seconds,
                    listener=listener,
                )
                return await run.outcome()
            except SlotLost as lost:
                logger.warning("a run was lost (attempt %d): %s", attempt, lost)
                if lost.started or attempt == self._attempts:
                    raise SandboxFailure(f"the sandbox failed: {lost}") from lost
            finally:
                warm_pool.release(slot)
        raise AssertionError("unreachable")

    def occupants(self) -> list[Occupant]:
        """The running programs."""
        pools = self._warm_pools.values()
        return [occupant for warm_pool in pools for occupant in warm_pool.occupants()]

    @property
    def shared_disk(self) -> Path | None:
        """The folder whose file system the programs share; None if each has its own."""
        if self._configuration.tier == Tier.FULL:
            return None
        return Path(self._configuration.root)

    @property
    def disk_bytes(self) -> int:
        """Disk limit of a program."""
        return self._configuration.disk_bytes

    async def open_session(self, execution: Execution) -> SessionProcess:
        """Start a notebook's driver with the files, environment and memory of ``execution``.

        Its command and time limit are ignored. Raises `SandboxFailure`.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                return await SessionProcess.start(self._warm_pools[NOTEBOOK], execution)
            except SlotLost as lost:
                logger.warning("a session was lost (attempt %d): %s", attempt, lost)
                if attempt == self._attempts:
                    raise SandboxFailure(f"no session could be started: {lost}") from lost
        raise AssertionError("unreachable")

    async def _make_slot(self, profile: Profile) -> Slot:
        number = heapq.heappop(self._free_numbers)
        try:
            cgroup = self._cgroups.create(f"slot-{number}")
        except BaseException:
            heapq.heappush(self._free_numbers, number)
            raise
        try:
            cgroup.set_pids_limit(self._capacity.processes + _OWN_PROCESSES)
            cgroup.set_cpu_limit(self._capacity.cores)
            if self._capacity.cpu_weight != 1.0:
                cgroup.set_cpu_weight(self._capacity.cpu_weight)
            process = await self._zygotes[profile].fork_slot(self._user(number))
        except BaseException:
            cgroup.remove()
            heapq.heappush(self._free_numbers, number)
            raise
        slot = Slot(number, process, cgroup, self.network, functools.partial(self._free, number))
        try:
            await slot.start()
        except (SlotLost, ProcessLookupError) as ended:  # with its zygote
            logger.warning("slot %d exited while starting: %s", number, ended)
            slot.broken = True
        return slot

    async def _free(self, number: int) -> None:
        """Return the number of a closed slot once all its processes are gone."""
        user = self._user(number)
        if user is not None and self._configuration.tier == "container":
            await self._zygotes[BASE].end_user(user)
        heapq.heappush(self._free_numbers, number)

    def _user(self, number: int) -> int | None:
        return None if self._first_user is None else self._first_user + number

    async def _warm_up_others(self) -> None:
        """Warm up all zygotes, and retry failed ones later: memory may have been short."""
        pending, delay = list(self._zygotes), _REWARM_SECONDS
        while pending:
            pending = [profile for profile in pending if not await self._warm_up(profile)]
            if pending:
                await asyncio.sleep(delay)
                delay = min(2 * delay, _MAX_REWARM_SECONDS)

    async def _warm_up(self, profile: Profile) -> bool:
        try:
            await self._zygotes[profile].warm_up()
        except SandboxFailure as failure:
            logger.warning("%s", failure)
            self._unavailable.add(profile)
            return False
        self._unavailable.discard(profile)
        logger.debug("zygote %s is warm", profile.name)
        return True

    async def _retire_idle_slots(self) -> None:
        idle_seconds = self._capacity.idle_seconds
        while True:
            await asyncio.sleep(idle_seconds / 4)
            for warm_pool in self._warm_pools.values():
                await warm_pool.retire(time.monotonic() - idle_seconds)


def make_folder() -> Path:
    """Create the folder of a pool, and remove those of processes that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove_folder(folder)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder.chmod(0o755)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder recursively, as far as possible."""
    # Programs can nest folders deeper than shutil.rmtree can recurse.
    command = ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
