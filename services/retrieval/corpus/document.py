"""Passages: their fields, and parsing them from corpus rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue, RowError, shown


@dataclass(frozen=True, slots=True)
class Document:
    """A passage.

    ``contents`` is what is searched, in Search-R1's convention: the quoted title, a newline, the
    text. ``title`` and ``text`` are its parts (the title may be empty). ``metadata`` can be
    filtered on; ``extra`` fields are only returned.
    """

    id: str
    contents: str
    title: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The passage as /retrieve returns it, UTF-8."""
        row: JsonObject = {
            "id": self.id,
            "contents": self.contents,
            "title": self.title,
            "text": self.text,
        }
        if self.metadata:
            row["metadata"] = self.metadata
        for name, value in self.extra.items():
            row.setdefault(name, value)
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def join_contents(title: str, text: str) -> str:
    """Build contents from title and text."""
    return f'"{title}"\n{text}' if title else text


def split_contents(contents: str) -> tuple[str, str]:
    """Split contents into title and text; without a quoted first line the title is empty."""
    first, line_break, rest = contents.partition("\n")
    if line_break and len(first) >= 2 and first[0] == first[-1] == '"':
        return first[1:-1], rest
    return "", contents


MAX_ID_CHARACTERS = 512
INTEGER_BITS = 63  # and a sign
_OWN = frozenset({"id", "contents", "title", "text", "metadata"})


def parse_row(row: JsonValue, default_id: str | None = None) -> Document:
    """Parse a row of a corpus; raises `RowError` naming the invalid field.

    Rows are ``{id, contents}``, ``{title, text, metadata}``, or both. A row without an id gets
    ``default_id``; if that is None the id is required. Missing fields are derived from the others.
    """
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with contents, or with title and text")
    contents, title, text = (_text(row, name) for name in ("contents", "title", "text"))
    if contents is None and text is None:
        raise RowError("contents is missing (or text, in its place)")
    if contents is None:
        contents = join_contents(title or "", text or "")
    own_title, own_text = split_contents(contents)
    if not contents.strip():
        raise RowError("contents is empty" if row.get("contents") is not None else "text is empty")
    return Document(
        id=_id(row.get("id"), default_id),
        contents=contents,
        title=own_title if title is None else title,
        text=own_text if text is None else text,
        metadata=_metadata(row.get("metadata")),
        extra={name: value for name, value in row.items() if name not in _OWN},
    )


def _text(row: JsonObject, name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RowError(f"{name} is {shown(value)}, not a string")
    return value


def _id(value: JsonValue, default: str | None) -> str:
    if value is None and default is not None:
        return default
    if value is None:
        raise RowError("id is missing")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(f"id is {shown(value)}, not a string or an integer")
    text = str(value)
    if not text:
        raise RowError("id is empty")
    if len(text) > MAX_ID_CHARACTERS:
        raise RowError(f"id is longer than {MAX_ID_CHARACTERS} characters: {shown(text)}")
    return text


def _metadata(value: JsonValue) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RowError(f"metadata is {shown(value)}, not an object")
    _check_numbers(value, "metadata")
    return value


def _check_numbers(value: JsonValue, path: str) -> None:
    """Reject integers beyond 64 bits; nesting depth is already bounded by the decoder."""
    match value:
        case dict():
            for name, item in value.items():
                _check_numbers(item, f"{path}.{name}")
        case list():
            for position, item in enumerate(value):
                _check_numbers(item, f"{path}[{position}]")
        case int() if value.bit_length() > INTEGER_BITS:
            raise RowError(f"{path} is {shown(value)}, which does not fit into 64 bits")
