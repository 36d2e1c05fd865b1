"""The end of a script: its room is removed, however often and by whom it is asked for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from services.sandbox.scripts.plan import ScriptPlan
from services.sandbox.scripts.rooms import Rooms
from services.sandbox.scripts.script import RunningScript


class SlowRoom:
    """A room whose script never ends by itself, and whose removal waits for ``allowed``."""

    def __init__(self) -> None:
        self.execution = self.room = None
        self.entered = asyncio.Event()
        self.removing = asyncio.Event()
        self.allowed = asyncio.Event()
        self.is_removed = False

    @asynccontextmanager
    async def open(self, *_: Any) -> AsyncIterator["SlowRoom"]:
        try:
            yield self
        finally:
            self.removing.set()
            await self.allowed.wait()
            self.is_removed = True

    async def run(self, *_: Any) -> None:
        self.entered.set()
        await asyncio.Event().wait()


def _delete_again(script: RunningScript, first: "asyncio.Task[None]") -> "asyncio.Task[None]":
    del first
    return asyncio.create_task(script.end())


def _disconnect(script: RunningScript, first: "asyncio.Task[None]") -> "asyncio.Task[None]":
    first.cancel()
    return asyncio.create_task(script.end())


@pytest.mark.parametrize("interfere", [_delete_again, _disconnect])
def test_nothing_interrupts_the_removal_of_a_room(
    interfere: Callable[[RunningScript, "asyncio.Task[None]"], "asyncio.Task[None]"],
) -> None:
    async def end_twice() -> bool:
        room = SlowRoom()
        script = RunningScript("s", 0, cast("ScriptPlan", room), cast("Rooms", room))
        await room.entered.wait()
        first = asyncio.create_task(script.end())
        await room.removing.wait()
        second = interfere(script, first)
        await asyncio.sleep(0)  # both have asked
        await asyncio.sleep(0)
        room.allowed.set()
        await asyncio.wait({first, second})
        assert not script.is_running
        return room.is_removed

    assert asyncio.run(asyncio.wait_for(end_twice(), 60))
