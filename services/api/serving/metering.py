"""Reading the tokens of an answer from its bytes, as they pass."""

import json
import re
from collections import deque

from pydantic import BaseModel, ValidationError

TAIL_PIECES = 8
_USAGE = re.compile(rb'"usage":\s*(?=\{)')
"""Text cannot contain it: there, quotes are escaped."""
_EVENT = b"data: {"
_EVENT_END = b"\n\n"
_NO_CHOICES = re.compile(rb'"choices":\s*\[\]')


class TokenUsage(BaseModel):
    """The tokens of one answer."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Meter:
    """Looks at one answer, which it passes on unchanged.

    ``added``: the stream has the event with its usage only because the gateway asked for it, so
    that this event is left out.
    """

    def __init__(self, *, added: bool) -> None:
        self._added = added
        self._tail: deque[bytes] = deque(maxlen=TAIL_PIECES)
        self._rest = b""
        self._events = 0

    def passed(self, piece: bytes, *, last: bool) -> bytes:
        """What to pass on of the answer after its next piece."""
        self._tail.append(piece)
        self._events += piece.count(_EVENT)
        if not self._added:
            return piece
        whole, end, self._rest = (self._rest + piece).rpartition(_EVENT_END)
        events = whole + end
        if _NO_CHOICES.search(events):
            kept = (each for each in events.split(_EVENT_END) if not _NO_CHOICES.search(each))
            events = _EVENT_END.join(kept)
        return events + self._rest if last else events

    def usage(self) -> TokenUsage:
        """The tokens that the answer says it took; of a stream that breaks off before it says
        so, one for each event."""
        tail = b"".join(self._tail)
        places = list(_USAGE.finditer(tail))
        if not places:
            return TokenUsage(completion_tokens=self._events)
        text = tail[places[-1].end() :].decode(errors="replace")
        try:
            value, _ = json.JSONDecoder().raw_decode(text)
            return TokenUsage.model_validate(value)
        except (ValueError, ValidationError):
            return TokenUsage()
