"""The process of a session: a notebook's driver that runs in a sandbox until it is closed."""

import socket
from typing import Self

from services.sandbox.execution import Execution, Outcome, SandboxFailure
from services.sandbox.pool.protocol import NotebookCommand
from services.sandbox.pool.run import SlotLost, SlotRun
from services.sandbox.pool.slot import Slot
from services.sandbox.pool.warm_pool import WarmPool


class SessionProcess:
    """A running driver. ``channel`` is the service's end of the socket that it serves."""

    def __init__(
        self, warm_pool: WarmPool, slot: Slot, run: SlotRun, channel: socket.socket
    ) -> None:
        self.channel = channel
        self._warm_pool = warm_pool
        self._slot = slot
        self._run = run

    @classmethod
    async def start(cls, warm_pool: WarmPool, execution: Execution) -> Self:
        """Start a driver in a slot of ``warm_pool``; raises `SandboxFailure` and `SlotLost`."""
        own_end, other_end = socket.socketpair()
        own_end.setblocking(False)
        slot = await warm_pool.acquire()
        try:
            with other_end:
                channel = other_end.fileno()
                run = await slot.begin(execution, NotebookCommand(), seconds=None, channel=channel)
        except BaseException:
            own_end.close()
            warm_pool.release(slot)
            raise
        return cls(warm_pool, slot, run, own_end)

    @property
    def memory_kills(self) -> int:
        """Number of its processes killed at the memory limit, as far as known."""
        return self._run.memory_kills

    async def close(self) -> Outcome:
        """Kill the driver and everything it started, and release its slot; call once.

        The outcome holds the files that the execution requested. Raises `SandboxFailure`.
        """
        self.channel.close()
        try:
            return await self._run.cancel()
        except SlotLost as lost:
            raise SandboxFailure(f"the session was lost: {lost}") from lost
        finally:
            self._warm_pool.release(self._slot)
