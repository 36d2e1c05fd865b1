"""The format of Mistral: [TOOL_CALLS] and a JSON list of {"name", "arguments", "id"}."""

from collections.abc import Iterator, Sequence

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue, shown
from services.rollouts.parsers.base import CallCollector, ParsedTurn, call_of, decode_at

_TAG = "[TOOL_CALLS]"


class MistralParser:
    """All calls of a turn are in one list."""

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        tag = text.find(_TAG)
        calls: list[JsonValue] | str = _list_behind(text, tag) if tag >= 0 else []
        if isinstance(calls, str):
            findings.add(calls, tag, len(text))
            return findings.turn()
        for value in calls:
            if findings.is_full(tag):
                break
            findings.add(call_of(value), tag, len(text))
        return findings.turn()


def call_ids(text: str) -> Iterator[str | None]:
    """The ids that the model gave the calls of a turn, in order; None for a call without one."""
    tag = text.find(_TAG)
    calls: list[JsonValue] | str = _list_behind(text, tag) if tag >= 0 else []
    for value in [] if isinstance(calls, str) else calls:
        if not isinstance(call_of(value), str):
            identity = value.get("id")
            yield identity if isinstance(identity, str) else None


def _list_behind(text: str, tag: int) -> list[JsonValue] | str:
    start = tag + len(_TAG)
    while text[start : start + 1].isspace():
        start += 1
    decoded = decode_at(text, start)
    if isinstance(decoded, str):
        return decoded
    value = decoded.value
    return value if isinstance(value, list) else f"is {shown(value)}, not a list of calls"
