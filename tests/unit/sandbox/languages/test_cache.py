"""Compilations are cached and shared; failures are not."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.execution import ExitReason, Outcome, SandboxFailure
from services.sandbox.languages.cache import Compilation, CompileCache
from tests.unit.sandbox.languages.outcomes import FAILURE, SUCCESS, TIME_OUT, success


class Compiler:
    """Compiles when it is let, and counts."""

    def __init__(self, outcome: Outcome | SandboxFailure = SUCCESS) -> None:
        self.outcome = outcome
        self.started = 0
        self.ended_early = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> Outcome:
        self.started += 1
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.ended_early += 1
            raise
        if isinstance(self.outcome, SandboxFailure):
            raise self.outcome
        return self.outcome


async def _get_at_once(cache: CompileCache, key: str, outcome: Outcome) -> Compilation:
    compiler = Compiler(outcome)
    compiler.may_end.set()
    return await cache.get(key, "limits", compiler)


async def _let_others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_successful_compilations_are_cached() -> None:
    async def scenario() -> None:
        cache = CompileCache(1000)
        first = await _get_at_once(cache, "key", SUCCESS)
        second = await _get_at_once(cache, "key", FAILURE)
        assert (first.cached, second.cached) == (False, True)
        assert second.outcome.files == SUCCESS.files
        assert (cache.hits, cache.misses, cache.entries) == (1, 1, 1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "outcome",
    [
        FAILURE,
        TIME_OUT,
        replace(SUCCESS, exit_reason=ExitReason.OUT_OF_MEMORY, return_code=-9),
        replace(SUCCESS, return_code=-11),
        replace(SUCCESS, left_out=("main",)),
        success({}),
    ],
    ids=["error", "time-out", "memory", "crash", "left out", "nothing made"],
)
def test_failed_compilations_are_not_cached(outcome: Outcome) -> None:
    async def scenario() -> None:
        cache = CompileCache(1000)
        await _get_at_once(cache, "key", outcome)
        again = await _get_at_once(cache, "key", SUCCESS)
        assert not again.cached
        assert again.outcome == SUCCESS

    asyncio.run(scenario())


def test_concurrent_requests_share_one_compilation() -> None:
    async def scenario() -> None:
        cache, compiler = CompileCache(1000), Compiler()
        asked = [asyncio.create_task(cache.get("key", "limits", compiler)) for _ in range(8)]
        await _let_others_run()
        compiler.may_end.set()
        answers = await asyncio.gather(*asked)
        assert compiler.started == 1
        assert sum(answer.cached for answer in answers) == 7
        assert cache.shared == 7

    asyncio.run(scenario())


def test_requests_with_other_limits_do_not_share_a_compilation() -> None:
    async def scenario() -> None:
        cache, short, long = CompileCache(1000), Compiler(TIME_OUT), Compiler()
        first = asyncio.create_task(cache.get("key", "1 s", short))
        second = asyncio.create_task(cache.get("key", "10 s", long))
        await _let_others_run()
        short.may_end.set()
        long.may_end.set()
        assert (await first).outcome.exit_reason is ExitReason.TIMED_OUT
        assert (await second).outcome == SUCCESS

    asyncio.run(scenario())


def test_the_first_waiter_may_be_cancelled() -> None:
    async def scenario() -> None:
        cache, compiler = CompileCache(1000), Compiler()
        first = asyncio.create_task(cache.get("key", "limits", compiler))
        await _let_others_run()
        second = asyncio.create_task(cache.get("key", "limits", compiler))
        await _let_others_run()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        compiler.may_end.set()
        assert (await second).outcome == SUCCESS
        assert (compiler.started, compiler.ended_early) == (1, 0)

    asyncio.run(scenario())


def test_the_last_waiter_cancels_the_compilation() -> None:
    async def scenario() -> None:
        cache, compiler = CompileCache(1000), Compiler()
        asked = [asyncio.create_task(cache.get("key", "limits", compiler)) for _ in range(2)]
        await _let_others_run()
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert compiler.ended_early == 1
        later = await _get_at_once(cache, "key", SUCCESS)
        assert not later.cached

    asyncio.run(scenario())


def test_a_sandbox_failure_reaches_all_waiters_and_is_not_cached() -> None:
    async def scenario() -> None:
        cache, compiler = CompileCache(1000), Compiler(SandboxFailure("lost"))
        asked = [asyncio.create_task(cache.get("key", "limits", compiler)) for _ in range(3)]
        await _let_others_run()
        compiler.may_end.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, SandboxFailure) for answer in answers)
        assert (await _get_at_once(cache, "key", SUCCESS)).outcome == SUCCESS

    asyncio.run(scenario())


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    async def scenario() -> None:
        cache = CompileCache(30)
        for key in "ab":
            await _get_at_once(cache, key, success({"f": bytes(10)}))
        await _get_at_once(cache, "a", SUCCESS)
        await _get_at_once(cache, "c", success({"f": bytes(10)}))
        assert (await _get_at_once(cache, "a", SUCCESS)).cached
        assert not (await _get_at_once(cache, "b", SUCCESS)).cached

    asyncio.run(scenario())


def test_entries_larger_than_the_cache_evict_nothing() -> None:
    async def scenario() -> None:
        cache = CompileCache(30)
        await _get_at_once(cache, "small", success({"f": bytes(10)}))
        await _get_at_once(cache, "large", success({"f": bytes(100)}))
        assert (await _get_at_once(cache, "small", SUCCESS)).cached

    asyncio.run(scenario())


@given(
    capacity=st.integers(0, 100),
    asked=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 60)), max_size=40),
)
def test_the_cache_never_exceeds_its_capacity(capacity: int, asked: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        cache = CompileCache(capacity)
        for key, size in asked:
            await _get_at_once(cache, key, success({"f": bytes(size)}))
            assert 0 <= cache.held_bytes <= capacity
        assert cache.hits + cache.misses == len(asked)
        assert (cache.held_bytes == 0) == (cache.entries == 0)

    asyncio.run(scenario())


def test_one_key_under_two_limits_is_counted_once() -> None:
    async def scenario() -> None:
        cache, compilers = CompileCache(1000), [Compiler(), Compiler()]
        asked = [
            asyncio.create_task(cache.get("key", limits, compiler))
            for limits, compiler in enumerate(compilers)
        ]
        await _let_others_run()
        for compiler in compilers:
            compiler.may_end.set()
        await asyncio.gather(*asked)
        assert cache.held_bytes == len("main") + len(b"program")

    asyncio.run(scenario())
