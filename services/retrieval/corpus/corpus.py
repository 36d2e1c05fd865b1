"""Corpora: files of rows and folders of text files."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from services.datasets.reader import open_records
from services.datasets.record import MAX_ROW_BYTES, Problem, RowError, UnreadableFile
from services.retrieval.corpus.chunking import cut
from services.retrieval.corpus.document import Document, join_contents, parse_row


@dataclass(frozen=True, slots=True)
class Passage:
    """A document, with the row (1-based) or file it came from."""

    document: Document
    row: int | None
    file: str | None = None

    @property
    def place(self) -> str:
        """Human-readable location."""
        return self.file if self.file is not None else f"row {self.row}"


class Corpus(Protocol):
    """Iterates over passages, or problems, in a stable order.

    Each iteration starts over and uses bounded memory. Raises `UnreadableFile` where reading cannot
    continue.
    """

    @property
    def share_read(self) -> float:
        """Fraction read so far, from 0 to 1."""

    def __iter__(self) -> Iterator[Passage | Problem]:
        """Start over from the beginning."""


class RowCorpus:
    """A JSONL, JSON or Parquet file.

    A row without an id gets its number, unless ``ids_required``.
    """

    def __init__(self, path: Path, *, ids_required: bool = False) -> None:
        self._records = open_records(path)
        self._ids_required = ids_required

    @property
    def share_read(self) -> float:
        """Fraction of the file read so far, from 0 to 1."""
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


TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown", ".rst", ".org", ".adoc", ".tex"})


class FolderCorpus:
    """The text files below a folder, recognized by suffix, in name order.

    Hidden files and symbolic links are skipped. A passage's id is its file's path and its 1-based
    number in the file; its title is the path without suffix.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = sum(1 for _ in _text_files(folder))
        self._read = 0
        if not self._files:
            suffixes = ", ".join(sorted(TEXT_SUFFIXES))
            raise UnreadableFile(f"the folder holds no text files ({suffixes})")

    @property
    def share_read(self) -> float:
        """Fraction of the files read so far, from 0 to 1."""
        return min(1.0, self._read / self._files)

    def __iter__(self) -> Iterator[Passage | Problem]:
        self._read = 0
        for path in _text_files(self._folder):
            name = os.fsencode(path.relative_to(self._folder)).decode(errors="replace")
            text = _text_of(path)
            if isinstance(text, str):
                yield from _passages(name, text)
            else:
                yield Problem(None, f"{name}: {text.message}")
            self._read += 1


def _passages(name: str, text: str) -> Iterator[Passage]:
    title = name.rpartition(".")[0]
    for number, passage in enumerate(cut(text), start=1):
        document = Document(
            id=f"{name}#{number}",
            contents=join_contents(title, passage),
            title=title,
            text=passage,
            metadata={"file": name},
        )
        yield Passage(document, None, f"{name}, passage {number}")


def _text_of(path: Path) -> str | Problem:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_ROW_BYTES + 1)
    except OSError as error:
        return Problem(None, f"cannot be read: {error.strerror}")
    if len(content) > MAX_ROW_BYTES:
        return Problem(None, f"is longer than {MAX_ROW_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        return Problem(None, f"is not UTF-8: byte 0x{byte:02x} at position {error.start + 1}")


def _text_files(folder: Path) -> Iterator[Path]:
    """Every text file below a folder, depth first; raises `UnreadableFile` for an unlistable
    one."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise UnreadableFile(f"the folder {folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _text_files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            path = Path(entry.path)
            if path.suffix.lower() in TEXT_SUFFIXES:
                yield path


def open_corpus(path: Path, *, ids_required: bool = False) -> Corpus:
    """Open a file of rows (JSONL, JSON or Parquet, detected by content) or a folder of text.

    With ``ids_required`` a row without an id is a problem. Raises `UnreadableFile`.
    """
    if path.is_dir():
        return FolderCorpus(path)
    if not path.exists():
        raise UnreadableFile("there is no such file")
    return RowCorpus(path, ids_required=ids_required)
