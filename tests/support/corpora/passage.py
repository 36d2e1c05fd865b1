"""A passage, and the rows that indexes are built from."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class CorpusMissing(Exception):
    """A source is missing; the message says how to install it."""


@dataclass(frozen=True)
class Passage:
    """One passage; ``heading`` is a line that its authors gave it and that is not a part of it.

    A heading is what somebody would ask for it by: `queries.heading_queries` are made of them.
    """

    id: str
    title: str
    text: str
    heading: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def contents(self) -> str:
        """Title and text in one, as published corpora have them."""
        return f'"{self.title}"\n{self.text}'

    def row(self) -> dict[str, Any]:
        """The row of a corpus."""
        return {
            "id": self.id,
            "title": self.title,
            "text": self.text,
            "contents": self.contents,
            "metadata": self.metadata,
        }


def write_rows(passages: Iterable[Passage], path: Path) -> int:
    """Write a corpus as JSON Lines; return how many rows."""
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for passage in passages:
            file.write(json.dumps(passage.row(), ensure_ascii=False) + "\n")
            count += 1
    return count
