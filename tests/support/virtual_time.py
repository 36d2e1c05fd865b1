"""Event loops in which waiting takes no time: one whose clock jumps to the next thing to do, and
one whose clock a test puts forward."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Report what is ready, and let the time pass that would have been waited."""
        self.now += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop of timers and futures; it cannot wait for anything outside of it."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """The seconds since the loop was made."""
        return self._jumping.now

    def settle(self) -> None:
        """Run what can run now."""
        for _ in range(5):
            self.run_until_complete(asyncio.sleep(0))


def run_in_virtual_time(work: Coroutine[Any, Any, Result]) -> Result:
    """What `asyncio.run` does, without waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


HOUR = 3600.0


class HurriedLoop(asyncio.SelectorEventLoop):
    """A loop for what waits for servers and processes too, until its clock is put forward."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__()

    def time(self) -> float:
        """The seconds of a clock that may have been put forward."""
        return super().time() + self._ahead

    def put_forward(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._ahead += seconds


def run_hurried(work: Coroutine[Any, Any, Result], *moments: Callable[[], object]) -> Result:
    """What `asyncio.run` does, but an hour passes at each moment in turn, once it has come.

    A limit of time can then be so long that nothing reaches it by itself, however slow the
    machine is, and still be reached at once.
    """

    async def hurried() -> Result:
        clock = asyncio.create_task(_put_forward(moments))
        try:
            return await work
        finally:
            clock.cancel()

    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        return runner.run(hurried())


async def _put_forward(moments: Sequence[Callable[[], object]]) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HurriedLoop)
    for has_come in moments:
        while not has_come():  # noqa: ASYNC110 - it comes in another thread or process
            await asyncio.sleep(0.01)
        loop.put_forward(HOUR)
