"""A data script as the sandbox runs it, and what the LLM is told about its exit."""

from dataclasses import dataclass

from services.campaigns.data.rows import DATA, MAX_DATA_BYTES, TOO_LARGE
from services.contracts.sandbox.programs import CommandResult, CommandStatus

SCRIPT = "process_data.py"
MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True)
class ScriptProgram:
    """A script with its arguments and its time limit in seconds."""

    source: str
    arguments: tuple[str, ...]
    seconds: float

    def problem(self, result: CommandResult, printed: str, size: int | None) -> str | None:
        """Why there is no data, for the LLM; None if there is. ``size`` is the size of the data,
        None if no file can be downloaded."""
        tail = printed[-MESSAGE_CHARACTERS:]
        if result.status is CommandStatus.TIME_LIMIT_EXCEEDED:
            return f"{SCRIPT} ran for more than {self.seconds:g} s; the end of its output:\n{tail}"
        if result.out_of_memory:
            return f"{SCRIPT} exceeded its memory; the end of its output:\n{tail}"
        if result.return_code != 0:
            return f"{SCRIPT} ended with code {result.return_code}; the end of its output:\n{tail}"
        if size is None:
            return f"{SCRIPT} wrote no {DATA} of at most {MAX_DATA_BYTES >> 20} MiB"
        if size > MAX_DATA_BYTES:
            return TOO_LARGE
        return None
