"""Compares expressions in worker processes, within limits of time and memory."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from services.core.user_functions.pool import FunctionFailed, FunctionPool
from services.rewards.interface import RewardFailed
from services.rewards.mathematics.limits import is_costly, is_refused

FUNCTION = "services.rewards.mathematics.child.any_equal"
SECONDS = 60.0
"""Wall time, for a process that gets no CPU; it normally ends itself long before."""
MAX_CHARACTERS = 1000
"""A longer expression equals nothing."""
PROCESSES = max(1, min(4, os.cpu_count() or 1))
COSTLY_PROCESSES = 1
"""For expressions that may take seconds, so that ordinary ones never wait behind them."""


class Equality:
    """Compares expressions in worker processes. Use it as an async context manager."""

    def __init__(self) -> None:
        self._pool = FunctionPool(FUNCTION, PROCESSES)
        self._costly_pool = FunctionPool(FUNCTION, COSTLY_PROCESSES)
        self._stack = AsyncExitStack()
        self._self_tested: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._pool)
        await self._stack.enter_async_context(self._costly_pool)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._self_tested is not None:
            self._self_tested.cancel()
            await asyncio.gather(self._self_tested, return_exceptions=True)
        await self._stack.aclose()

    async def any_equal(self, golds: Sequence[str], answer: str, *, ordered: bool = False) -> bool:
        """Whether an answer means the same as one of the golds.

        It does not if the comparison exceeds its limits, so that no answer escapes its score. With
        ``ordered``, lists are equal only in the same order. Raises `RewardFailed` if nothing can
        be compared.
        """
        golds = [gold for gold in golds if _is_comparable(gold)]
        if not golds or not _is_comparable(answer):
            return False
        if self._self_tested is None or self._has_failed(self._self_tested):
            self._self_tested = asyncio.create_task(self._self_test())
        await asyncio.shield(self._self_tested)
        try:
            return await self._call(golds, answer, ordered=ordered)
        except FunctionFailed:
            return False

    def _has_failed(self, works: "asyncio.Task[None]") -> bool:
        return works.done() and (works.cancelled() or works.exception() is not None)

    async def _self_test(self) -> None:
        """Compare equal expressions: if that fails, no answer is to blame."""
        try:
            if await self._call(["1/2"], "0.5"):
                return
        except FunctionFailed as error:
            raise RewardFailed(f"expressions cannot be compared: {error.message}") from error
        raise RewardFailed("expressions cannot be compared: 1/2 did not equal 0.5")

    async def _call(self, golds: Sequence[str], answer: str, *, ordered: bool = False) -> bool:
        pool = self._costly_pool if any(map(is_costly, [*golds, answer])) else self._pool
        arguments = {"golds": list(golds), "answer": answer, "ordered": ordered}
        return bool(await pool.call(arguments, SECONDS))


def _is_comparable(text: str) -> bool:
    return len(text) <= MAX_CHARACTERS and not is_refused(text)
