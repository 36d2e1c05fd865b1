"""The format of Llama 3.1 and later: {"name": ..., "parameters": {...}}, several with semicolons.

The model may mark its calls with <|python_tag|>, and may write text before them.
"""

import re
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.rollouts.parsers.base import (
    CallCollector,
    ParsedTurn,
    call_of,
    decode_at,
    has_arguments,
)

_TAG = "<|python_tag|>"
_BEGINNING = re.compile(r'\{\s*"(?:name|type|function|parameters)"')


class Llama3JsonParser:
    """Every object with a name and parameters is a call; others are text."""

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        tag = text.find(_TAG)
        place = 0
        while match := _BEGINNING.search(text, place):
            start = match.start()
            if findings.is_full(start):
                break
            place = _read(findings, start, marked=0 <= tag < start)
        if tag >= 0 and not (findings.calls or findings.malformed):
            findings.add("is not a JSON object with name and parameters", tag, len(text))
        return findings.turn()


def _read(findings: CallCollector, start: int, *, marked: bool) -> int:
    """Read the object at ``start``; returns where to continue."""
    text = findings.text
    decoded = decode_at(text, start)
    if isinstance(decoded, str):
        following = _BEGINNING.search(text, start + 1)
        end = following.start() if following else len(text)
        findings.add(decoded, start, end)
        return end
    if marked or has_arguments(decoded.value):
        findings.add(call_of(decoded.value), start, decoded.end)
    return decoded.end
