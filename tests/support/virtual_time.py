"""Event loops in which waiting takes no time: one whose clock jumps to the next timer, and one
whose clock a test advances."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


class _VirtualSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Report what is ready, and advance the clock by the timeout instead of waiting."""
        self.now += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop of timers and futures; it cannot wait for anything outside of it."""

    def __init__(self) -> None:
        self._virtual_selector = _VirtualSelector()
        super().__init__(self._virtual_selector)

    def time(self) -> float:
        """The seconds since the loop was made."""
        return self._virtual_selector.now

    def settle(self) -> None:
        """Run all callbacks that are ready."""
        for _ in range(5):
            self.run_until_complete(asyncio.sleep(0))


def run_in_virtual_time(work: Coroutine[Any, Any, Result]) -> Result:
    """Like `asyncio.run`, without waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


HOUR = 3600.0


class AdvancingLoop(asyncio.SelectorEventLoop):
    """A loop that also waits for servers and processes; its clock can be advanced."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__()

    def time(self) -> float:
        """Seconds of the clock, including those it was advanced by."""
        return super().time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._ahead += seconds


def run_advancing_clock(
    work: Coroutine[Any, Any, Result], *moments: Callable[[], object]
) -> Result:
    """Like `asyncio.run`, but the clock advances by an hour once each of ``moments`` is true.

    So a timeout can be too long to expire on a slow machine, and still expire at once.
    """

    async def advancing() -> Result:
        clock = asyncio.create_task(_advance_at(moments))
        try:
            return await work
        finally:
            clock.cancel()

    with asyncio.Runner(loop_factory=AdvancingLoop) as runner:
        return runner.run(advancing())


async def _advance_at(moments: Sequence[Callable[[], object]]) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdvancingLoop)
    for has_come in moments:
        while not has_come():  # noqa: ASYNC110 - it comes in another thread or process
            await asyncio.sleep(0.01)
        loop.advance(HOUR)
