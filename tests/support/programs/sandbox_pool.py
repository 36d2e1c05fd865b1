"""A real pool for synchronous tests."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from services.sandbox.isolation.cgroups import Cgroups, find_cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import Isolation, choose_tier
from services.sandbox.pool.assembly import create_pool
from services.sandbox.pool.pool import Capacity, Pool
from tests.support.programs.reachable import folders_to_open, make_reachable
from tests.support.runtimes import installed_runtime

START_SECONDS = 180.0
CALL_SECONDS = 300.0
Value = TypeVar("Value")


class PoolInThread:
    """A pool in its own event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool) -> None:
        self._loop = loop
        self.pool = pool

    def call(self, work: Coroutine[Any, Any, Value]) -> Value:
        """The result of a coroutine that uses the pool."""
        return self.begin(work).result(CALL_SECONDS)

    def begin(self, work: Coroutine[Any, Any, Value]) -> "Future[Value]":
        """Start a coroutine that uses the pool; to cancel what is returned cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


@contextmanager
def running_pool(
    toolchains: Iterable[str] = (),
    *,
    programs: int = 4,
    devices: Iterable[str] = (),
    tier: Tier | None = None,
    groups: bool = True,
) -> Iterator[PoolInThread]:
    """A pool with the runtime `sandbox`, in the strongest tier that works here or in ``tier``.

    Without ``groups`` it finds no control groups to use.
    """
    python = installed_runtime("sandbox").python
    cgroups = find_cgroups("temper-test") if groups else Cgroups([], dict.fromkeys(Controller, ""))
    capacity = Capacity(programs=programs, sessions=1, processes=256, disk_bytes=512 << 20)

    async def start() -> Pool:
        # In the thread of the loop, which starts all processes: its view of the files is theirs.
        if tier is Tier.CONTAINER:
            make_reachable(folders_to_open(python))
        isolation = choose_tier(Tier.CONTAINER, tier, cgroups)
        users.append(isolation)
        pool = create_pool(python, isolation, cgroups, capacity, toolchains, devices=devices)
        await pool.start()
        return pool

    users: list[Isolation] = []  # held as long as the pool has processes
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        starting = asyncio.run_coroutine_threadsafe(start(), loop)
        running = PoolInThread(loop, starting.result(START_SECONDS))
        try:
            yield running
        finally:
            running.call(running.pool.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)
        loop.close()
        cgroups.close()
