"""Extracts token usage from a response while it is streamed."""

import json
import re

from pydantic import BaseModel

USAGE_BYTES = 4096
"""Largest usage object that is parsed."""
OVERLAP_BYTES = 64
"""More than the match of `_USAGE`, which two chunks may share."""
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
        self._overlap = b""
        self._usage: bytes | None = None
        self._rest = b""
        self._events = 0

    def feed(self, chunk: bytes, *, last: bool) -> bytes:
        """Read the next chunk of the response; return the bytes to forward."""
        self._find_usage(chunk)
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
        if self._usage is None:
            return TokenUsage(completion_tokens=self._events)
        try:
            value, _ = json.JSONDecoder().raw_decode(self._usage.decode(errors="replace"))
            return TokenUsage.model_validate(value)
        except ValueError:
            return TokenUsage()

    def _find_usage(self, chunk: bytes) -> None:
        """Collect the bytes after the last match: large fields, such as logprobs, may follow."""
        text = self._overlap + chunk
        matches = list(_USAGE.finditer(text))
        if matches:
            self._usage = text[matches[-1].end() :][:USAGE_BYTES]
        elif self._usage is not None:
            self._usage += chunk[: USAGE_BYTES - len(self._usage)]
        self._overlap = text[-OVERLAP_BYTES:]
