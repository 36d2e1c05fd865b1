"""A passage, as indexes hold it and as clients see it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from services.contracts.base import JsonObject


@dataclass(frozen=True, slots=True)
class Document:
    """A passage of a corpus.

    ``contents`` is what is searched: by Search-R1's convention the title in quotation marks, a
    line break, and the text. ``title`` and ``text`` are its parts; a passage without a title has
    an empty one. ``metadata`` can be filtered by; ``extra`` are fields of the corpus's own, which
    are only given back.
    """

    id: str
    contents: str
    title: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The passage as /retrieve answers with it, UTF-8."""
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


def joined(title: str, text: str) -> str:
    """The contents of a passage that came as title and text."""
    return f'"{title}"\n{text}' if title else text


def parted(contents: str) -> tuple[str, str]:
    """Title and text of a passage that came as contents; without a quoted first line, no title."""
    first, line_break, rest = contents.partition("\n")
    if line_break and len(first) >= 2 and first[0] == first[-1] == '"':
        return first[1:-1], rest
    return "", contents
