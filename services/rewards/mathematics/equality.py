"""Compares expressions in worker processes, within time and memory limits; the cost of an
expression is estimated beforehand, from its text alone."""

import asyncio
import math
import os
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from services.core.process.worker_pool import FunctionFailed, FunctionPool
from services.rewards.interface import RewardFailed

FUNCTION = "services.rewards.mathematics.child.any_equal"
SECONDS = 60.0
"""Wall time, for a process that gets no CPU; it normally finishes long before."""
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


def _is_comparable(text: str) -> bool:
    return len(text) <= MAX_CHARACTERS and not is_refused(text)


MAX_DIGITS = 20_000
"""Maximum digits of the result of a power of numbers."""
MAX_EXPONENT = 10_000

_NUMBER = r"(?:\d+(?:\.\d+)?|#[\d.]+#)"  # between hashes: the decimal logarithm of a power
_POWER = re.compile(rf"({_NUMBER})\s*\^\s*({_NUMBER})")
_GROUP = re.compile(rf"[({{]\s*({_NUMBER})\s*[)}}]")
_HUGE_EXPONENT = re.compile(r"\^\s*[({]*\s*[-+]?\d{5,}")
_HUGE_FACTORIAL = re.compile(r"\d{5,}\s*[)}]*\s*!|!\s*[)}]*\s*!")
_COSTLY = re.compile(
    r"!|\\(?:sum|prod|int|lim|binom|log|ln|Gamma)|\^\s*[({]*\s*[-+]?\d{3,}|\^\s*\{[^{}]*\^"
)


def is_refused(text: str) -> bool:
    """Whether evaluating the expression could take longer than any comparison may."""
    text = re.sub(r"\\(?:left|right)", "", text)
    if _HUGE_EXPONENT.search(text) or _HUGE_FACTORIAL.search(text):
        return True
    while True:
        text, groups = _GROUP.subn(r"\1", text)
        power = _POWER.search(text)
        if power is None and not groups:
            return False
        if power is not None:
            exponent = 10.0 ** min(_logarithm(power[2]), 10.0)
            digits = _logarithm(power[1]) * exponent
            if exponent > MAX_EXPONENT or digits > MAX_DIGITS:
                return True
            text = f"{text[: power.start()]}#{max(digits, 0.0):.6f}#{text[power.end() :]}"


def is_costly(text: str) -> bool:
    """Whether the expression should queue behind others that may take seconds."""
    return _COSTLY.search(text) is not None


def _logarithm(number: str) -> float:
    if number.startswith("#"):
        return float(number.strip("#"))
    return math.log10(max(float(number), 1.0))
