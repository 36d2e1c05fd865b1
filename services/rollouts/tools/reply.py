"""What comes of a call, and who is asked."""

from dataclasses import dataclass
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.trajectories import CallOutcome


@dataclass(frozen=True)
class ToolReply:
    """What came of one call.

    ``text`` is what the model is to read, of at most 8 MiB characters and encodable as UTF-8: the
    tool's reply, or what went wrong in words that help a model. ``error`` says it to a person,
    null where the tool answered. ``attempts`` counts requests, 0 where none was made;
    ``seconds`` include the wait for a free place of the tool.
    """

    outcome: CallOutcome
    text: str
    error: str | None
    attempts: int
    seconds: float


class Toolbox(Protocol):
    """The tools of a job; safe to ask from many tasks at once."""

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        """What the model reads of each tool: {type: function, function: {name, ...}}."""
        ...

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """Call a tool; ``arguments`` is null where the model wrote none that could be read.

        Whatever goes wrong is a reply: nothing is raised but ``CancelledError``.
        """
        ...
