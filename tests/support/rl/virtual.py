"""Virtual time in which what is done in threads takes none."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from tests.support.virtual_time import VirtualLoop

Result = TypeVar("Result")


class InlineLoop(VirtualLoop):
    """Runs at once what others hand to threads: no clock jumps while it is done."""

    def run_in_executor(  # type: ignore[override]  # runs at once, in virtual time
        self, executor: Executor | None, func: Callable[..., Result], *args: Any
    ) -> "asyncio.Future[Result]":
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """What `asyncio.run` does, without waiting."""
    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        return runner.run(work)
