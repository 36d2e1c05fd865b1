"""A driver that violates the protocol ends its notebook and nothing else."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.execution import ExitReason, Outcome, SandboxFailure
from services.sandbox.guest.frames import LARGEST_HEADER, PREFIX, encode
from services.sandbox.sessions.driver import DriverChannel
from services.sandbox.sessions.notebook import CellOutcome, Notebook, NotebookEnded, NotEnoughMemory
from services.sandbox.sessions.outputs import CellOutputs, OutputBudget
from tests.unit.sandbox.sessions.scripted import (
    MAX_BYTES,
    ROOM,
    ScriptedDriver,
    scripted_notebook,
    start,
)

DONE = {"type": "done", "ok": True, "count": 1, "cut": []}
SECONDS = 20.0


def outputs() -> CellOutputs:
    return CellOutputs(OutputBudget(ROOM, ROOM, ROOM))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)


async def ended(notebook: Notebook) -> None:
    await until(lambda: notebook.ended_at is not None)


async def begin(notebook: Notebook, driver: ScriptedDriver) -> "asyncio.Task[CellOutcome]":
    """A cell that the driver has been asked to run."""
    running = asyncio.create_task(notebook.execute("code", outputs()))
    header, body = await driver.heard()
    assert (header["type"], body) == ("execute", b"code")
    return running


def test_cells_run_one_after_another() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            for _ in range(2):
                running = await begin(notebook, driver)
                await driver.tell({"type": "stream", "name": "stdout"}, b"text")
                await driver.tell(DONE)
                end = await running
                assert end.done is not None
                assert end.kernel_exit is None

    run(work())


BROKEN: list[bytes] = [
    b"\xff" * 64,
    PREFIX.pack(LARGEST_HEADER + 1, 0),
    PREFIX.pack(2, MAX_BYTES + 1) + b"{}",
    PREFIX.pack(2, 1 << 63) + b"{}",
    encode({"type": "unknown"}),
    encode({"no": "type"}),
    encode({"type": "done", "ok": "yes", "count": 1, "cut": []}),
    encode({"type": "done", "ok": True, "count": -1, "cut": []}),
    encode({"type": "died", "return_code": 10**30}),
    encode({"type": "stream", "name": "stdin"}),
    encode({"type": "ready", "more": 1}),
    encode({"type": "file", "error": None, "entries": []}),  # nobody asked
    encode({"type": "stream", "name": "stdout"}, body_length=ROOM + 1) + b"x" * (ROOM + 1),
    encode({"type": "display", "items": [{"type": "a", "json": False, "size": 5}]}),
    encode({"type": "display", "items": [{"type": "a", "json": False, "size": 1}] * 100}),
    encode({"type": "error", "ename": "E" * 9999, "evalue": "", "traceback": []}),
    encode({"type": "stream", "name": "stdout"}) * 100_000,
    encode({"type": "error", "ename": "", "evalue": "", "traceback": []}) * 1000,
    encode({"type": "error", "ename": "", "evalue": "", "traceback": [""] * 100_000}),
    encode({"type": "ready"}),  # it was
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_protocol_violations_end_the_notebook_and_its_cell(data: bytes) -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = await begin(notebook, driver)
            writing = asyncio.create_task(driver.write(data))
            end = await running
            await asyncio.gather(writing, return_exceptions=True)
            assert end == CellOutcome()
            assert notebook.ended_at is not None
            assert "its driver violated the protocol" in notebook.end_reason
            assert await notebook.execute("more", outputs()) == CellOutcome()
            with pytest.raises(NotebookEnded):
                await notebook.ask({"type": "list", "after": "", "limit": 1})

    run(work())


@given(data=st.binary(min_size=1, max_size=200) | st.text().map(lambda s: encode({"type": s})))
def test_garbage_ends_the_notebook_or_is_incomplete(data: bytes) -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            await driver.write(data)
            driver.hang_up()
            assert await notebook.execute("code", outputs()) in (CellOutcome(),)

    run(work())


@pytest.mark.parametrize("header", [DONE, {"type": "stream", "name": "stdout"}])
def test_output_outside_a_cell_ends_the_notebook(header: dict[str, Any]) -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            await driver.tell(header)
            await ended(notebook)

    run(work())


def test_a_kernel_exit_during_a_cell_is_its_result() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = await begin(notebook, driver)
            driver.memory_kills = 1
            await driver.tell({"type": "died", "return_code": -9})
            end = await running
            assert end.kernel_exit is not None
            assert (end.kernel_exit.return_code, end.kernel_exit.out_of_memory) == (-9, True)
            assert notebook.restarts == 1
            await driver.tell({"type": "ready"})
            await begin(notebook, driver)

    run(work())


def test_a_kernel_exit_between_cells_fails_the_next_cell_unrun() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            await driver.tell({"type": "died", "return_code": 3})
            await driver.tell({"type": "ready"})
            await until(lambda: notebook.restarts == 1)
            end = await notebook.execute("code", outputs())
            assert end.kernel_exit is not None
            assert not end.started
            await begin(notebook, driver)

    run(work())


def test_a_requested_restart_is_not_reported() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            await notebook.restart()
            assert (await driver.heard())[0] == {"type": "restart"}
            await driver.tell({"type": "died", "return_code": -9})
            await driver.tell({"type": "ready"})
            await until(lambda: notebook.restarts == 1)
            await begin(notebook, driver)

    run(work())


def test_a_kernel_that_keeps_dying_ends_the_notebook() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            message = encode({"type": "died", "return_code": 1}) + encode({"type": "ready"})
            writing = asyncio.create_task(driver.write(message * 10_000))
            await ended(notebook)
            await asyncio.gather(writing, return_exceptions=True)

    run(work())


def test_a_fault_of_ours_ends_the_notebook_and_its_cell() -> None:
    class Faulty(CellOutputs):
        def take(self, message: Any, body: bytes) -> None:
            raise RecursionError

    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            faulty = Faulty(OutputBudget(ROOM, ROOM, ROOM))
            running = asyncio.create_task(notebook.execute("code", faulty))
            await driver.heard()
            await driver.tell({"type": "stream", "name": "stdout"}, b"text")
            assert await running == CellOutcome()
            assert notebook.end_reason == "internal error: RecursionError"

    run(work())


def test_processes_are_killed_even_if_the_dismissal_of_their_driver_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(self: DriverChannel) -> None:
        raise RuntimeError("no transport")

    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = await begin(notebook, driver)
            monkeypatch.setattr(DriverChannel, "close", broken)
            await notebook.end("it was deleted")
            assert await running == CellOutcome()
            assert driver.closed

    run(work())


def test_a_fault_while_processes_are_killed_leaves_nobody_waiting() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = await begin(notebook, driver)
            kill = driver.close

            async def faulty() -> Outcome:
                await kill()
                raise RuntimeError("no pool")

            driver.close = faulty  # type: ignore[method-assign]  # a fault of the test
            await notebook.end("it was deleted")
            assert await running == CellOutcome()
            assert notebook.end_reason == "it was deleted (internal error: RuntimeError)"

    run(work())


def test_a_dead_driver_ends_the_cell() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = await begin(notebook, driver)
            driver.outcome = replace(driver.outcome, exit_reason=ExitReason.OUT_OF_MEMORY)
            driver.hang_up()
            assert await running == CellOutcome()
            assert notebook.end_reason == "it exceeded its memory limit"
            assert notebook.ran_out_of_memory

    run(work())


def test_an_abandoned_answer_does_not_reach_the_next_request() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            asked = asyncio.create_task(notebook.ask({"type": "read", "path": "a"}))
            await driver.heard()
            asked.cancel()
            other = asyncio.create_task(notebook.ask({"type": "read", "path": "b"}))
            await driver.tell({"type": "file", "error": None, "entries": []}, b"a")
            header, _ = await driver.heard()
            assert header["path"] == "b"
            await driver.tell({"type": "file", "error": None, "entries": []}, b"b")
            assert (await other)[1] == b"b"

    run(work())


def test_a_kernel_that_fails_to_start_says_why() -> None:
    async def work() -> None:
        driver = ScriptedDriver()
        driver.outcome = replace(driver.outcome, stderr=b"Traceback\nImportError: zmq")
        driver.hang_up()
        with pytest.raises(SandboxFailure, match="ImportError: zmq"):
            await start(driver)
        driver = ScriptedDriver()
        driver.outcome = replace(driver.outcome, exit_reason=ExitReason.OUT_OF_MEMORY)
        driver.hang_up()
        with pytest.raises(NotEnoughMemory):
            await start(driver)
        assert driver.closed

    run(work())
