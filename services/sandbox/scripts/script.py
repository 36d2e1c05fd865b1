"""One script, from its start to its deletion."""

import asyncio
import logging
import time
from collections.abc import Mapping

from services.contracts.errors import TemperError
from services.contracts.sandbox.programs import CommandResult
from services.contracts.sandbox.scripts import Script, ScriptState
from services.sandbox.execution import Outcome, Stream
from services.sandbox.scripts.plan import ScriptPlan
from services.sandbox.scripts.rooms import Rooms
from services.sandbox.wire import command_result

logger = logging.getLogger(__name__)

_TAIL_BYTES = 16 << 10
_LISTED_FILES = 20


class RunningScript:
    """A script running in a task of its own; afterwards, its result."""

    def __init__(self, script_id: str, number: int, plan: ScriptPlan, rooms: Rooms) -> None:
        self.id = script_id
        self.number = number
        self._started = time.monotonic()
        self._tails = {stream: bytearray() for stream in Stream}
        self._outcome: Outcome | None = None
        self._failure: str | None = None
        self._duration = 0.0
        self._is_ending = False
        self._task = asyncio.create_task(self._run(plan, rooms))

    @property
    def is_running(self) -> bool:
        """Whether any of its processes may still run."""
        return not self._task.done()

    @property
    def files(self) -> Mapping[str, bytes]:
        """The fetched files of a script that has ended, by path."""
        return {} if self._outcome is None else self._outcome.files

    def view(self) -> Script:
        """The wire form of the script."""
        outcome = self._outcome
        if self.is_running:
            state, seconds = ScriptState.RUNNING, time.monotonic() - self._started
        else:
            state = ScriptState.FAILED if outcome is None else ScriptState.ENDED
            seconds = self._duration
        return Script(
            id=self.id,
            state=state,
            seconds=seconds,
            stdout=self._tails[Stream.STDOUT].decode(errors="replace"),
            stderr=self._tails[Stream.STDERR].decode(errors="replace"),
            result=None if outcome is None else _without_output(outcome),
            files={path: len(content) for path, content in self.files.items()},
            message=self._failure or _omitted_files(outcome),
        )

    async def end(self) -> None:
        """Kill it if it is running, and wait until its room is gone."""
        if not self._is_ending:  # a second cancellation would interrupt the removal of its room
            self._is_ending = True
            self._task.cancel()
        await asyncio.wait([self._task])  # which is not cancelled with its waiter

    async def _run(self, plan: ScriptPlan, rooms: Rooms) -> None:
        try:
            async with rooms.open(self.number, plan.room) as pool:
                self._outcome = await pool.run(plan.execution, self._append)
        except TemperError as error:
            self._failure = error.message
        except Exception as error:
            logger.exception("script %s", self.id)
            self._failure = f"the sandbox failed: {type(error).__name__}"
        finally:
            self._duration = time.monotonic() - self._started

    def _append(self, stream: Stream, piece: bytes) -> None:
        self._tails[stream] += piece
        del self._tails[stream][:-_TAIL_BYTES]


def _without_output(outcome: Outcome) -> CommandResult:
    """The script reports the tail of its output separately."""
    return command_result(outcome).model_copy(update={"stdout": None, "stderr": None})


def _omitted_files(outcome: Outcome | None) -> str:
    if outcome is None or not outcome.left_out:
        return ""
    return "too large to fetch: " + ", ".join(outcome.left_out[:_LISTED_FILES])
