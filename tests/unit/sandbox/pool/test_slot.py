"""What the service reports when a slot's processes get no turn to answer."""

import asyncio
import os
from typing import Any, cast

import pytest

from services.sandbox.execution import Execution, ExitReason, Limits, Outcome, PythonFile
from services.sandbox.guest.frames import ChannelClosed
from services.sandbox.guest.layout import LAYOUT
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.pool import run as runs
from services.sandbox.pool.run import SlotLost
from services.sandbox.pool.slot import Slot
from services.sandbox.pool.zygote import SlotProcess


class Silent:
    """A channel to a slot that is ready for a run, takes it, and says nothing more."""

    def __init__(self, *, dies: bool) -> None:
        self._dies = dies
        self._answers = [(LAYOUT._asdict(), b"")]

    async def send(self, *_: Any) -> None:
        pass

    async def receive(self) -> Any:
        if self._answers:
            return self._answers.pop()
        if self._dies:
            raise ChannelClosed
        return await asyncio.Event().wait()


def outcome(channel: Silent, fetch: tuple[str, ...] = ()) -> Outcome:
    async def run() -> Outcome:
        process = SlotProcess(os.getpid(), -1, cast(Any, channel))
        slot = Slot(0, process, Cgroup("none", ()), None, asyncio.Event().wait)  # type: ignore[arg-type]  # a stand-in of the process
        await slot.prepare()
        command = PythonFile("main.py")
        execution = Execution(command, Limits(0.01, 1 << 20, 1 << 20), fetch=fetch)
        started = await slot.begin(execution, command, seconds=0.01)
        try:
            return await started.outcome()
        finally:
            assert slot.broken

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FILES_SECONDS", "_VERDICT_SECONDS"):
        monkeypatch.setattr(runs, name, 0.01)


@pytest.mark.parametrize("fetch", [(), ("result.txt",)])
def test_a_program_whose_slot_gets_no_turn_has_exceeded_its_time_limit(
    fetch: tuple[str, ...],
) -> None:
    result = outcome(Silent(dies=False), fetch)

    assert (result.exit_reason, result.return_code) == (ExitReason.TIMED_OUT, None)


def test_a_slot_that_dies_is_a_failure_of_the_sandbox() -> None:
    with pytest.raises(SlotLost, match="its process died") as lost:
        outcome(Silent(dies=True))
    assert lost.value.started
