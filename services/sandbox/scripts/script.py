"""One script, from its start to its deletion."""

import asyncio
import logging
import time
from collections.abc import Mapping

from services.contracts.errors import TemperError
from services.contracts.sandbox import CommandResult
from services.contracts.sandbox_scripts import Script, ScriptState
from services.sandbox.execution import Outcome, Stream
from services.sandbox.scripts.order import ScriptOrder
from services.sandbox.scripts.rooms import Rooms
from services.sandbox.wire import command_result

logger = logging.getLogger(__name__)

_SHOWN_BYTES = 16 << 10
_NAMED_FILES = 20


class RunningScript:
    """A script that runs in a task of its own; afterwards, its result."""

    def __init__(self, script_id: str, number: int, order: ScriptOrder, rooms: Rooms) -> None:
        self.id = script_id
        self.number = number
        self._began = time.monotonic()
        self._printed = {stream: bytearray() for stream in Stream}
        self._outcome: Outcome | None = None
        self._failure: str | None = None
        self._took = 0.0
        self._task = asyncio.create_task(self._run(order, rooms))

    @property
    def is_running(self) -> bool:
        """Whether anything of it may still run."""
        return not self._task.done()

    @property
    def files(self) -> Mapping[str, bytes]:
        """The fetched files of a script that has ended, by path."""
        return {} if self._outcome is None else self._outcome.files

    def view(self) -> Script:
        """Where it stands."""
        outcome = self._outcome
        if self.is_running:
            state, seconds = ScriptState.RUNNING, time.monotonic() - self._began
        else:
            state = ScriptState.FAILED if outcome is None else ScriptState.ENDED
            seconds = self._took
        return Script(
            id=self.id,
            state=state,
            seconds=seconds,
            stdout=self._printed[Stream.STDOUT].decode(errors="replace"),
            stderr=self._printed[Stream.STDERR].decode(errors="replace"),
            result=None if outcome is None else _without_output(outcome),
            files={path: len(content) for path, content in self.files.items()},
            message=self._failure or _left_out(outcome),
        )

    async def end(self) -> None:
        """Kill it, if it runs; nothing of it is left then."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, order: ScriptOrder, rooms: Rooms) -> None:
        try:
            async with rooms.open(self.number, order.room) as pool:
                self._outcome = await pool.run(order.execution, self._print)
        except TemperError as error:
            self._failure = error.message
        except Exception as error:
            logger.exception("script %s", self.id)
            self._failure = f"the sandbox failed: {type(error).__name__}"
        finally:
            self._took = time.monotonic() - self._began

    def _print(self, stream: Stream, piece: bytes) -> None:
        self._printed[stream] += piece
        del self._printed[stream][:-_SHOWN_BYTES]


def _without_output(outcome: Outcome) -> CommandResult:
    """The end of its output is shown elsewhere, while it runs and afterwards."""
    return command_result(outcome).model_copy(update={"stdout": None, "stderr": None})


def _left_out(outcome: Outcome | None) -> str:
    if outcome is None or not outcome.left_out:
        return ""
    return "too large to fetch: " + ", ".join(outcome.left_out[:_NAMED_FILES])
