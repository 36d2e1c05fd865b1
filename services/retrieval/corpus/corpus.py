"""Corpora: files of rows, and folders of text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from services.datasets.reader import open_records
from services.datasets.record import Problem, RowError
from services.retrieval.corpus.document import Document
from services.retrieval.corpus.rows import parse_row


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of a corpus, and the row (counted from 1) or the file that it came from."""

    document: Document
    row: int | None
    file: str | None = None

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return self.file if self.file is not None else f"row {self.row}"


class Corpus(Protocol):
    """Yields the passages of one corpus in an order that stays, or the problems it has.

    Iterating begins anew each time, takes bounded memory however long the corpus is, and raises
    `UnreadableFile` where it cannot be read any further.
    """

    @property
    def share_read(self) -> float:
        """How much of it was read, from 0 to 1."""

    def __iter__(self) -> Iterator[Passage | Problem]:
        """Read it from its beginning."""


class RowCorpus:
    """A JSONL, JSON or Parquet file.

    A row without an id gets its number, unless ``ids_required``.
    """

    def __init__(self, path: Path, *, ids_required: bool = False) -> None:
        self._records = open_records(path)
        self._ids_required = ids_required

    @property
    def share_read(self) -> float:
        """How much of the file was read, from 0 to 1."""
        return self._records.share_read

    def __iter__(self) -> Iterator[Passage | Problem]:
        for record in self._records:
            if isinstance(record, Problem):
                yield record
                continue
            try:
                number = None if self._ids_required else record.row
                document = parse_row(record.value, number)
            except RowError as error:
                yield Problem(record.row, error.message)
            else:
                yield Passage(document, record.row)
