"""A cell that runs too long is stopped, by increasingly strong means."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from services.contracts.sandbox.sessions import CellResult, CellStatus
from services.sandbox.sessions import cells
from services.sandbox.sessions.cells import run_cell
from services.sandbox.sessions.outputs import CellOutputs, OutputBudget
from tests.unit.sandbox.sessions.scripted import ROOM, ScriptedDriver, scripted_notebook

INTERRUPTED = {
    "type": "error",
    "ename": "KeyboardInterrupt",
    "evalue": "",
    "traceback": ["KeyboardInterrupt"],
}
FAILED = {"type": "done", "ok": False, "count": 7, "cut": ["stdout"]}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time limits are effectively off, except where a test sets them."""
    monkeypatch.setattr(cells, "INTERRUPT_SECONDS", 60.0)
    monkeypatch.setattr(cells, "REPLACE_SECONDS", 60.0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def outputs() -> CellOutputs:
    return CellOutputs(OutputBudget(ROOM, ROOM, ROOM))


async def heard(driver: ScriptedDriver, kind: str) -> None:
    header, _ = await driver.heard()
    assert header["type"] == kind


def test_an_interruptible_cell_keeps_its_kernel() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = asyncio.create_task(run_cell(notebook, "code", 0.05, outputs()))
            await heard(driver, "execute")
            await driver.tell({"type": "stream", "name": "stdout"}, "so far \N{SNOWMAN}".encode())
            await heard(driver, "interrupt")
            await driver.tell(INTERRUPTED)
            await driver.tell(FAILED)
            result = await running
            assert result.status is CellStatus.TIMED_OUT
            assert (result.stdout, result.execution_count) == ("so far \N{SNOWMAN}", 7)
            assert result.error is not None
            assert result.error.ename == "KeyboardInterrupt"
            assert (result.stdout_truncated, result.kernel_restarted) == (True, False)

    run(work())


def test_a_cell_that_ignores_the_interrupt_loses_its_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cells, "INTERRUPT_SECONDS", 0.1)

    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = asyncio.create_task(run_cell(notebook, "code", 0.05, outputs()))
            for kind in ("execute", "interrupt", "restart"):
                await heard(driver, kind)
            await driver.tell({"type": "died", "return_code": -9})
            result = await running
            assert (result.status, result.kernel_restarted) == (CellStatus.TIMED_OUT, True)
            assert result.error is not None
            assert "SIGKILL" in result.error.evalue

    run(work())


def test_an_unresponsive_driver_ends_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "INTERRUPT_SECONDS", 0.1)
    monkeypatch.setattr(cells, "REPLACE_SECONDS", 0.1)

    async def work() -> None:
        async with scripted_notebook() as (notebook, _driver):
            result = await run_cell(notebook, "code", 0.05, outputs())
            assert result.status is CellStatus.SESSION_ENDED
            assert notebook.ended_at is not None

    run(work())


def test_an_abandoned_cell_is_stopped() -> None:
    async def work() -> None:
        async with scripted_notebook() as (notebook, driver):
            running = asyncio.create_task(run_cell(notebook, "code", 60, outputs()))
            await heard(driver, "execute")
            running.cancel()
            await heard(driver, "interrupt")
            await driver.tell(FAILED)
            with pytest.raises(asyncio.CancelledError):
                await running
            following = asyncio.create_task(run_cell(notebook, "code", 60, outputs()))
            await heard(driver, "execute")
            await driver.tell({"type": "done", "ok": True, "count": 8, "cut": []})
            assert (await following).status is CellStatus.OK

    run(work())


@pytest.mark.parametrize(
    ("ask", "answers", "status"),
    [
        ("interrupt", [INTERRUPTED, FAILED], CellStatus.INTERRUPTED),
        ("restart", [{"type": "died", "return_code": -9}], CellStatus.INTERRUPTED),
        (None, [FAILED], CellStatus.ERROR),
        (None, [{"type": "died", "return_code": -11}], CellStatus.KERNEL_DIED),
    ],
)
def test_the_cell_status_says_what_stopped_it(
    ask: str | None, answers: list[dict[str, Any]], status: CellStatus
) -> None:
    async def work() -> CellResult:
        async with scripted_notebook() as (notebook, driver):
            running = asyncio.create_task(run_cell(notebook, "code", 60, outputs()))
            await heard(driver, "execute")
            if ask is not None:
                await getattr(notebook, ask)()
                await heard(driver, ask)
            for answer in answers:
                await driver.tell(answer)
            return await running

    assert asyncio.run(work()).status is status
