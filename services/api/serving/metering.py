"""Extracts token usage from a response while it is streamed."""

import json
import re
from collections import deque

from pydantic import BaseModel

TAIL_CHUNKS = 8
_USAGE = re.compile(rb'"usage":\s*(?=\{)')
"""Generated text cannot match: its quotes are escaped."""
_EVENT = b"data: {"
_EVENT_END = b"\n\n"
_NO_CHOICES = re.compile(rb'"choices":\s*\[\]')


class TokenUsage(BaseModel):
    """Token usage of one response."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Meter:
    """Reads one response, which passes unchanged.

    With ``strip_usage``, the usage event is removed from the stream: only the gateway requested it.
    """

    def __init__(self, *, strip_usage: bool) -> None:
        self._strip_usage = strip_usage
        self._tail: deque[bytes] = deque(maxlen=TAIL_CHUNKS)
        self._rest = b""
        self._events = 0

    def feed(self, chunk: bytes, *, last: bool) -> bytes:
        """Read the next chunk of the response; return the bytes to forward."""
        self._tail.append(chunk)
        self._events += chunk.count(_EVENT)
        if not self._strip_usage:
            return chunk
        whole, end, self._rest = (self._rest + chunk).rpartition(_EVENT_END)
        events = whole + end
        if _NO_CHOICES.search(events):
            forwarded = (each for each in events.split(_EVENT_END) if not _NO_CHOICES.search(each))
            events = _EVENT_END.join(forwarded)
        return events + self._rest if last else events

    def usage(self) -> TokenUsage:
        """The usage that the response reports; for a stream that was cut off before, one completion
        token per event."""
        tail = b"".join(self._tail)
        matches = list(_USAGE.finditer(tail))
        if not matches:
            return TokenUsage(completion_tokens=self._events)
        text = tail[matches[-1].end() :].decode(errors="replace")
        try:
            value, _ = json.JSONDecoder().raw_decode(text)
            return TokenUsage.model_validate(value)
        except ValueError:
            return TokenUsage()
