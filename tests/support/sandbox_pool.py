"""A real pool of sandboxes, for tests that are no coroutines."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from services.sandbox.isolation.cgroups import find_cgroups
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import choose_tier
from services.sandbox.pool.assembly import create_pool
from services.sandbox.pool.capacity import Capacity
from services.sandbox.pool.pool import Pool
from tests.support.runtimes import installed_runtime

START_SECONDS = 60.0
CALL_SECONDS = 180.0
Value = TypeVar("Value")


class PoolInThread:
    """A pool in an event loop of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool) -> None:
        self._loop = loop
        self.pool = pool

    def call(self, work: Coroutine[Any, Any, Value]) -> Value:
        """The result of a coroutine that uses the pool."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)


@contextmanager
def running_pool(
    toolchains: Iterable[str] = (), *, programs: int = 4, devices: Iterable[str] = ()
) -> Iterator[PoolInThread]:
    """A pool with the runtime `sandbox`, in the strongest tier that works here."""
    python = installed_runtime("sandbox").python
    cgroups = find_cgroups("temper-test")
    isolation = choose_tier(Tier.CONTAINER, None, cgroups)
    capacity = Capacity(programs=programs, sessions=1, processes=256, disk_bytes=512 << 20)
    pool = create_pool(python, isolation, cgroups, capacity, toolchains, devices=devices)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = PoolInThread(loop, pool)
    try:
        running.call(pool.start())
        yield running
    finally:
        try:
            running.call(pool.close())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(START_SECONDS)
            loop.close()
            cgroups.close()
