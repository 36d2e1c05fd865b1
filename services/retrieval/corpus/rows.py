"""The rows of a corpus: ``{id, contents}``, or ``{title, text, metadata}``, or both at once."""

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue, RowError, shown
from services.retrieval.corpus.document import Document, joined, parted

MAX_ID_CHARACTERS = 512
INTEGER_BITS = 63  # and a sign
_OWN = frozenset({"id", "contents", "title", "text", "metadata"})


def parse_row(row: JsonValue, number: int | None = None) -> Document:
    """Turn a row into a passage; raises `RowError` that names the field at fault.

    A row without an id gets its ``number`` for one; where that is None, the id must be there.
    A passage that came as contents has its title and text taken out of them, and the other way
    round; a row that has both keeps them as they are.
    """
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with contents, or with title and text")
    contents, title, text = (_text(row, name) for name in ("contents", "title", "text"))
    if contents is None and text is None:
        raise RowError("contents is missing (or text, in its place)")
    if contents is None:
        contents = joined(title or "", text or "")
    own_title, own_text = parted(contents)
    if not contents.strip():
        raise RowError("contents is empty" if row.get("contents") is not None else "text is empty")
    return Document(
        id=_id(row.get("id"), number),
        contents=contents,
        title=own_title if title is None else title,
        text=own_text if text is None else text,
        metadata=_metadata(row.get("metadata")),
        extra={name: value for name, value in row.items() if name not in _OWN},
    )


def _text(row: JsonObject, name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RowError(f"{name} is {shown(value)}, not a text")
    return value


def _id(value: JsonValue, number: int | None) -> str:
    if value is None and number is not None:
        return str(number)
    if value is None:
        raise RowError("id is missing")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(f"id is {shown(value)}, not a text or a whole number")
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
    """Refuse whole numbers that no index can hold; the depth of rows is bounded."""
    match value:
        case dict():
            for name, item in value.items():
                _check_numbers(item, f"{path}.{name}")
        case list():
            for position, item in enumerate(value):
                _check_numbers(item, f"{path}[{position}]")
        case int() if value.bit_length() > INTEGER_BITS:
            raise RowError(f"{path} is {shown(value)}, which does not fit into 64 bits")
