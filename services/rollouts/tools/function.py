"""Tools that are Python functions."""

import json

from services.contracts.base import JsonObject
from services.contracts.trajectories import CallOutcome
from services.core.user_functions.pool import CallableFailed, CallableProcesses, CallableTimedOut
from services.rollouts.tools.configuration import CallableConfig
from services.rollouts.tools.fault import SHOWN_CHARACTERS, ToolFault
from services.rollouts.tools.said import Said


class FunctionTool:
    """Calls a function with the arguments by name. The reply is the text that it returns, or its
    value as JSON."""

    def __init__(self, processes: CallableProcesses, config: CallableConfig) -> None:
        self._processes = processes
        self._timeout = config.timeout

    async def run(self, arguments: JsonObject) -> Said:
        """What the function returned; raises `ToolFault`."""
        try:
            value = await self._processes.call(arguments, self._timeout)
        except CallableTimedOut as error:
            text = "Error: the tool did not answer in time."
            raise ToolFault(CallOutcome.TIMED_OUT, text, error.message, 1) from error
        except CallableFailed as error:
            text = f"Error: {error.message[:SHOWN_CHARACTERS]}"
            raise ToolFault(CallOutcome.FAILED, text, error.message, 1) from error
        if isinstance(value, str):
            return Said(value, 1)
        return Said("" if value is None else json.dumps(value, ensure_ascii=False), 1)
