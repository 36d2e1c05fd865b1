"""Compares expressions in worker processes, within time and memory limits."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from services.contracts.failures import InfrastructureCause
from services.core.process.worker_pool import FunctionFailed, FunctionPool, FunctionTimedOut
from services.rewards.interface import RewardFailed
from services.rewards.mathematics.costs import is_costly

FUNCTION = "services.rewards.mathematics.child.any_equal"
SECONDS = 60.0
"""Wall time, for a process that gets no CPU: one that computes is ended long before."""
MAX_CHARACTERS = 1000
"""A longer expression equals nothing."""
PROCESSES = max(1, min(4, os.cpu_count() or 1))
COSTLY_PROCESSES = 1
"""For expressions that may take seconds, so that ordinary ones never wait behind them."""


_ATTEMPTS = 2


class NotCompared(RewardFailed):
    """A comparison got no processor time: there is no verdict, and the answer is not to blame."""

    code = "not_compared"


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
        be compared, and `NotCompared` if this comparison got no processor time.
        """
        golds = [gold for gold in golds if len(gold) <= MAX_CHARACTERS]
        if not golds or len(answer) > MAX_CHARACTERS:
            return False
        return bool(await self._compared(golds, answer, ordered=ordered))

    async def are_same(self, one: str, other: str, *, ordered: bool = False) -> bool | None:
        """Whether two answers are equal, whichever of them is the gold; None if that exceeds the
        limits or gets no processor time. Raises `RewardFailed` if nothing can be compared."""
        if max(len(one), len(other)) > MAX_CHARACTERS:
            return False
        try:
            for gold, answer in ((one, other), (other, one)):
                verdict = await self._compared([gold], answer, ordered=ordered)
                if not verdict:
                    return verdict
        except NotCompared:
            return None
        return True

    async def _compared(self, golds: Sequence[str], answer: str, *, ordered: bool) -> bool | None:
        """Whether the answer equals one of the golds; None if that exceeds the limits."""
        if self._self_tested is None or self._has_failed(self._self_tested):
            self._self_tested = asyncio.create_task(self._self_test())
        await asyncio.shield(self._self_tested)
        for _ in range(_ATTEMPTS):
            try:
                return await self._call(golds, answer, ordered=ordered)
            except FunctionTimedOut as error:
                message = f"expressions were not compared within {SECONDS:g} s: no processor time"
                raise NotCompared(message, cause=InfrastructureCause.NO_PROCESSOR_TIME) from error
            except FunctionFailed:
                continue  # it may have been ended by something else than its own limits
        return None

    def _has_failed(self, works: "asyncio.Task[None]") -> bool:
        return works.done() and (works.cancelled() or works.exception() is not None)

    async def _self_test(self) -> None:
        """Compare equal expressions: if that fails, the answer is not to blame."""
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
