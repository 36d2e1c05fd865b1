"""A data script as the sandbox runs it, and what its end tells the LLM."""

from dataclasses import dataclass

from services.contracts.sandbox import CommandResult, CommandStatus

SCRIPT, DATA = "process_data.py", "data.json"
MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True)
class ScriptProgram:
    """A script with its arguments, and the seconds that it may take."""

    source: str
    arguments: tuple[str, ...]
    seconds: float

    def problem(self, result: CommandResult, printed: str, *, has_data: bool) -> str | None:
        """Why there are no data, for the LLM; None when there are."""
        tail = printed[-MESSAGE_CHARACTERS:]
        if result.status is CommandStatus.TIME_LIMIT_EXCEEDED:
            return f"{SCRIPT} ran for more than {self.seconds:g} s; the end of its output:\n{tail}"
        if result.out_of_memory:
            return f"{SCRIPT} exceeded its memory; the end of its output:\n{tail}"
        if result.return_code != 0:
            return f"{SCRIPT} ended with code {result.return_code}; the end of its output:\n{tail}"
        if not has_data:
            return f"{SCRIPT} wrote no {DATA} of a size that can be fetched"
        return None
