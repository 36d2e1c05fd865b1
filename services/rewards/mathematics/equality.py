"""Asking whether expressions are equal, within a time limit."""

import asyncio
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from services.core.user_functions.pool import FunctionFailed, FunctionPool
from services.rewards.interface import RewardFailed

FUNCTION = "services.rewards.mathematics.child.any_equal"
SECONDS = 60.0
"""For a process that is not given the processor; it ends itself long before."""
LONGEST = 1000
"""Characters of an expression; a longer one equals none."""
PROCESSES = max(1, min(4, os.cpu_count() or 1))


class Equality:
    """Compares expressions in processes of its own. Use it as an async context manager."""

    def __init__(self) -> None:
        self._processes = FunctionPool(FUNCTION, PROCESSES)
        self._works: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._processes.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._works is not None:
            self._works.cancel()
            await asyncio.gather(self._works, return_exceptions=True)
        await self._processes.__aexit__(kind, error, trace)

    async def any_equal(self, golds: Sequence[str], answer: str) -> bool:
        """Whether an answer means the same as one of the golds.

        It does not when comparing takes more than five seconds of computing or more memory than
        there is: an answer must not escape its judge. Raises `RewardFailed` where nothing can be
        compared.
        """
        golds = [gold for gold in golds if len(gold) <= LONGEST]
        if not golds or len(answer) > LONGEST:
            return False
        if self._works is None or self._has_failed(self._works):
            self._works = asyncio.create_task(self._try_out())
        await asyncio.shield(self._works)
        try:
            return await self._call(golds, answer)
        except FunctionFailed:
            return False

    def _has_failed(self, works: "asyncio.Task[None]") -> bool:
        return works.done() and (works.cancelled() or works.exception() is not None)

    async def _try_out(self) -> None:
        """An answer that is equal: if this is not seen, the fault is ours and not an answer's."""
        try:
            if await self._call(["1/2"], "0.5"):
                return
        except FunctionFailed as error:
            raise RewardFailed(f"expressions cannot be compared: {error.message}") from error
        raise RewardFailed("expressions cannot be compared: 1/2 is not found to be 0.5")

    async def _call(self, golds: Sequence[str], answer: str) -> bool:
        arguments = {"golds": list(golds), "answer": answer}
        return bool(await self._processes.call(arguments, SECONDS))
