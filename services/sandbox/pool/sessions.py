"""The process of a session: a notebook's driver that runs in a sandbox until it is ended."""

import socket
from typing import Self

from services.sandbox.execution import Execution, Outcome, SandboxFailure
from services.sandbox.pool.protocol import Notebook
from services.sandbox.pool.slot import Run, Slot, SlotLost
from services.sandbox.pool.warm_pool import Shelf


class SessionProcess:
    """A running driver. ``channel`` is the service's end of the socket that it serves."""

    def __init__(self, shelf: Shelf, slot: Slot, run: Run, channel: socket.socket) -> None:
        self.channel = channel
        self._shelf = shelf
        self._slot = slot
        self._run = run

    @classmethod
    async def start(cls, shelf: Shelf, execution: Execution) -> Self:
        """Start a driver in a slot of ``shelf``; raises `SandboxFailure` and `SlotLost`."""
        own_end, other_end = socket.socketpair()
        own_end.setblocking(False)
        slot = await shelf.take()
        try:
            with other_end:
                channel = other_end.fileno()
                run = await slot.begin(execution, Notebook(), seconds=None, channel=channel)
        except BaseException:
            own_end.close()
            shelf.give_back(slot)
            raise
        return cls(shelf, slot, run, own_end)

    @property
    def memory_kills(self) -> int:
        """How many of its processes were killed at its memory limit, as far as that is known."""
        return self._run.memory_kills

    async def close(self) -> Outcome:
        """End the driver and everything it started; its place is free afterwards.

        What came of it holds the files that its execution asked for. To be called once; raises
        `SandboxFailure`.
        """
        self.channel.close()
        try:
            return await self._run.cancel()
        except SlotLost as lost:
            raise SandboxFailure(f"the session was lost: {lost}") from lost
        finally:
            self._shelf.give_back(self._slot)
