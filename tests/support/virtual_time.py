"""An event loop whose clock jumps to the next thing to do: waiting takes no time."""

import asyncio
import selectors
from collections.abc import Coroutine
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
