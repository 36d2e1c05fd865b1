"""The format of Hermes and Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>."""

import re
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.rollouts.parsers.base import CallCollector, ParsedCall, ParsedTurn, call_of, decode_at

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_TAG = re.compile(r"</?tool_call>")
_BLANKS = re.compile(r"\s*")


class HermesParser:
    """One call per pair of tags; a tag inside a JSON string is text."""

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        place = 0
        while (start := text.find(_OPEN, place)) >= 0 and not findings.is_full(start):
            found, place = _read(text, start)
            findings.add(found, start, place)
        return findings.turn()


def _read(text: str, start: int) -> tuple[ParsedCall | str, int]:
    """The call after the tag at ``start``, or why there is none, and where to continue."""
    body = start + len(_OPEN)
    decoded = decode_at(text, _blanks_end(text, body))
    if isinstance(decoded, str):
        return decoded, _next_tag(text, body)
    close = _blanks_end(text, decoded.end)
    if not text.startswith(_CLOSE, close):
        return f"is not followed by {_CLOSE}", _next_tag(text, decoded.end)
    return call_of(decoded.value), close + len(_CLOSE)


def _blanks_end(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    return match.end() if match else start


def _next_tag(text: str, start: int) -> int:
    """The end of the next closing tag, or the start of an opening tag before it."""
    tag = _TAG.search(text, start)
    if tag is None:
        return len(text)
    return tag.start() if tag.group() == _OPEN else tag.end()
