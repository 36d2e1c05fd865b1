"""Common types of parsers: parsed calls and turns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.rollouts.trajectories import MalformedCall

MAX_CALLS = 256
"""Maximum number of calls and malformed calls read per turn."""

MAX_NAME = 200
"""Maximum length of a tool's name."""

_KEPT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call; ``arguments`` is None if the model's arguments are not a JSON object."""

    name: str
    arguments: JsonObject | None


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """The calls of a turn, in the order written; ``begin`` is the position in the text of the
    first of them, None without any."""

    calls: tuple[ParsedCall, ...]
    malformed: tuple[MalformedCall, ...]
    begin: int | None = None


class ToolParser(Protocol):
    """Parses the calls of a turn; thread-safe, in time linear in the text."""

    def parse(self, text: str, tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        """Parse a turn, decoded with special tokens. Never raises.

        ``tools`` are the schemas shown to the model, for formats without typed arguments.
        """
        ...


@dataclass(slots=True)
class CallCollector:
    """Collects the calls in a text, up to `MAX_CALLS`."""

    text: str
    calls: list[ParsedCall] = field(default_factory=list)
    malformed: list[MalformedCall] = field(default_factory=list)
    begin: int | None = None

    def add(self, found: ParsedCall | str, start: int, end: int) -> None:
        """Keep a call, or the malformed text between two positions with its reason."""
        if self.begin is None:
            self.begin = start
        if isinstance(found, ParsedCall):
            self.calls.append(found)
        else:
            head = self.text[start : min(end, start + _KEPT_CHARACTERS)]
            self.malformed.append(MalformedCall(text=head, reason=found))

    def is_full(self, start: int) -> bool:
        """Whether the limit is reached; if so, the text from ``start`` is recorded as unread."""
        if len(self.calls) + len(self.malformed) < MAX_CALLS:
            return False
        reason = f"a turn has at most {MAX_CALLS} calls; the rest is not read"
        self.add(reason, start, len(self.text))
        return True

    def turn(self) -> ParsedTurn:
        """The collected turn."""
        return ParsedTurn(tuple(self.calls), tuple(self.malformed), self.begin)
