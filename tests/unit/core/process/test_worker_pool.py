"""Calling the operator's functions in child processes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.core.process import worker_pool as pool
from services.core.process.worker_pool import (
    FunctionFailed,
    FunctionPool,
    FunctionTimedOut,
    check_function_allowed,
)
from tests.support.virtual_time import run_advancing_clock
from tests.support.waiting import wait_for

HERE = "tests.unit.core.process.functions"
SECONDS = 30.0
Result = TypeVar("Result")


def with_processes(
    name: str,
    work: Callable[[FunctionPool], Awaitable[Result]],
    processes: int = 1,
    folder: Path | None = None,
    moments: Sequence[Callable[[], object]] = (),
) -> Result:
    """What comes of work with processes; an hour passes at each of the ``moments``."""

    async def run() -> Result:
        path = name if "." in name else f"{HERE}.{name}"
        async with FunctionPool(path, processes, folder) as functions:
            return await work(functions)

    return run_advancing_clock(run(), *moments)


def called(name: str, folder: Path | None = None, **arguments: Any) -> Any:
    return with_processes(name, lambda functions: functions.call(arguments, SECONDS), folder=folder)


@pytest.mark.parametrize("name", ["add", "add_later"])
def test_a_function_is_called_by_keyword(name: str) -> None:
    assert called(name, a=2, b=3) == 5


def test_a_process_is_reused_for_the_next_call() -> None:
    async def twice(functions: FunctionPool) -> tuple[int, int]:
        return await functions.call({}, SECONDS), await functions.call({}, SECONDS)

    first, second = with_processes("process", twice)

    assert first == second
    assert not psutil.pid_exists(first)


def test_a_resting_pool_has_no_process_until_the_next_call() -> None:
    async def before_and_after(functions: FunctionPool) -> tuple[int, bool, int]:
        first = await functions.call({}, SECONDS)
        await functions.rest()
        return first, psutil.pid_exists(first), await functions.call({}, SECONDS)

    first, survives, second = with_processes("process", before_and_after)

    assert not survives
    assert first != second


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fail", {}, "ValueError: no such thing"),
        ("add", {"c": 1}, "TypeError"),
        ("returns_a_set", {}, "TypeError"),
        ("leave", {}, "ended its process"),
        ("exit_with_message", {}, "ended its process"),
        ("NUMBER", {}, "is not a function"),
        ("nowhere", {}, "cannot be imported"),
        ("tests.nowhere.at_all", {}, "cannot be imported"),
    ],
)
def test_the_reason_of_a_failed_call_is_reported(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(FunctionFailed, match=message):
        called(name, **arguments)


def test_an_oversized_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_VALUE_BYTES", 1 << 16)

    with pytest.raises(FunctionFailed, match="more than"):
        called("much", size=1 << 20)


def test_a_function_can_be_called_after_a_failure() -> None:
    async def fail_and_go_on(functions: FunctionPool) -> int:
        for name in ({"c": 1}, {"a": 1, "b": []}):
            with pytest.raises(FunctionFailed):
                await functions.call(name, SECONDS)
        return int(await functions.call({"a": 1, "b": 1}, SECONDS))

    assert with_processes("add", fail_and_go_on) == 2


def test_a_hanging_function_is_killed_with_its_processes(tmp_path: Path) -> None:
    started = tmp_path / "pids"

    async def hang(functions: FunctionPool) -> None:
        with pytest.raises(FunctionTimedOut, match="within 600 s"):
            await functions.call({"started": str(started)}, 600.0)

    with_processes("hang", hang, moments=[started.exists])

    pids = [int(pid) for pid in started.read_text().split()]
    assert len(pids) == 2
    wait_for(lambda: not any(_runs(pid) for pid in pids), "both processes end")


def test_a_cancelled_call_leaves_no_process(tmp_path: Path) -> None:
    started = tmp_path / "pids"

    async def cancel(functions: FunctionPool) -> None:
        call = asyncio.create_task(functions.call({"started": str(started)}, SECONDS))
        await asyncio.to_thread(wait_for, lambda: started.exists() or None, "it hangs")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with_processes("hang", cancel)

    pids = [int(pid) for pid in started.read_text().split()]
    wait_for(lambda: not any(_runs(pid) for pid in pids), "both processes end")


def test_modules_are_imported_from_the_operators_folder(tmp_path: Path) -> None:
    (tmp_path / "mine_alone.py").write_text("def twice(n):\n    return 2 * n\n")

    assert called("mine_alone.twice", folder=tmp_path, n=4) == 8


def test_a_function_sees_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_API_KEY", "sk-secret")

    assert "sk-secret" not in called("variables").values()


def test_only_allowed_functions_may_be_called() -> None:
    check_function_allowed("a.b.c", ["a.b.c"], "x")
    with pytest.raises(PermissionDenied, match="TEMPER_ALLOWED_CALLABLES"):
        check_function_allowed("os.system", ["a.b.c"], "x")


@pytest.mark.parametrize("path", ["", "f", "a..b", "a.b;c", "a/b.c", ".a.b", "a.b.", "a.b\n"])
def test_invalid_dotted_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        check_function_allowed(path, [path], "x")


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
