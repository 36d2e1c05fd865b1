"""What is read from a turn of the model: its calls, and what was meant to be one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.contracts.base import JsonObject

MAX_FINDINGS = 256
"""Of one turn no more calls and attempts at them are read."""

MAX_NAME = 200
"""Characters of a tool's name."""

_KEPT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call. ``arguments`` is null where the model wrote some that are no JSON object."""

    name: str
    arguments: JsonObject | None


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """The head of what looks like a call, and why it is none."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """The calls of a turn, in the order in which they were written."""

    calls: tuple[ParsedCall, ...]
    malformed: tuple[MalformedCall, ...]


class ToolParser(Protocol):
    """Reads the calls of a turn; safe to use from many threads, in time linear in the text."""

    def parse(self, text: str, tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        """Read a turn, decoded with special tokens. No text is an error.

        ``tools`` are the schemas that the model was shown, for formats that leave the types of
        arguments to them.
        """
        ...


@dataclass(slots=True)
class Findings:
    """Gathers what a parser finds in a text, up to `MAX_FINDINGS`."""

    text: str
    calls: list[ParsedCall] = field(default_factory=list)
    malformed: list[MalformedCall] = field(default_factory=list)

    def add(self, found: ParsedCall | str, start: int, end: int) -> None:
        """Keep a call, or that the text between two places is none for the reason ``found``."""
        if isinstance(found, ParsedCall):
            self.calls.append(found)
        else:
            head = self.text[start : min(end, start + _KEPT_CHARACTERS)]
            self.malformed.append(MalformedCall(head, found))

    def is_full(self, start: int) -> bool:
        """Whether what begins at ``start`` is too much; it is noted as unread then."""
        if len(self.calls) + len(self.malformed) < MAX_FINDINGS:
            return False
        reason = f"a turn has at most {MAX_FINDINGS} calls; the rest is not read"
        self.add(reason, start, len(self.text))
        return True

    def turn(self) -> ParsedTurn:
        """What was found."""
        return ParsedTurn(tuple(self.calls), tuple(self.malformed))
