"""Corpora: files of rows, folders of such files (shards), and folders of text files."""

import os
from collections.abc import Iterator, Sequence
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
    """A JSONL, JSON or Parquet file, or a gzip-compressed JSONL file.

    A row without an id gets its number, unless ``ids_required``. With a ``name``, which identifies
    the file within the corpus, ids and places begin with it.
    """

    def __init__(self, path: Path, *, name: str | None = None, ids_required: bool = False) -> None:
        self._name = name
        self._records = open_records(path)
        self._ids_required = ids_required

    @property
    def share_read(self) -> float:
        """Fraction of the file read so far, from 0 to 1."""
        return self._records.share_read

    def __iter__(self) -> Iterator[Passage | Problem]:
        for record in self._records:
            if isinstance(record, Problem):
                yield self._placed(record)
                continue
            try:
                document = parse_row(record.value, self._default_id(record.row))
            except RowError as error:
                yield self._placed(Problem(record.row, error.message))
            else:
                yield self._passage(document, record.row)

    def _default_id(self, row: int) -> str | None:
        if self._ids_required:
            return None
        return str(row) if self._name is None else f"{self._name}#{row}"

    def _passage(self, document: Document, row: int) -> Passage:
        if self._name is None:
            return Passage(document, row)
        return Passage(document, None, f"{self._name}, row {row}")

    def _placed(self, problem: Problem) -> Problem:
        return problem if self._name is None else _in_file(self._name, problem)


SHARD_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


class ShardedCorpus:
    """The files of rows below a folder, in name order.

    A row without an id gets its file's name and its number, unless ``ids_required``.
    """

    def __init__(self, folder: Path, shards: Sequence[Path], *, ids_required: bool = False) -> None:
        self._shards = [(path, path.stat().st_size) for path in shards]
        self._folder = folder
        self._ids_required = ids_required
        self._bytes = max(1, sum(size for _, size in self._shards))
        self._read = 0.0

    @property
    def share_read(self) -> float:
        """Fraction of the bytes read so far, from 0 to 1."""
        return min(1.0, self._read / self._bytes)

    def __iter__(self) -> Iterator[Passage | Problem]:
        before = 0
        for path, size in self._shards:
            name = name_in(self._folder, path)
            try:
                rows = RowCorpus(path, name=name, ids_required=self._ids_required)
                for item in rows:
                    self._read = before + size * rows.share_read
                    yield item
            except UnreadableFile as error:
                yield _in_file(name, error.problem)
            before += size
            self._read = before


def _in_file(name: str, problem: Problem) -> Problem:
    place = name if problem.row is None else f"{name}, row {problem.row}"
    return Problem(None, f"{place}: {problem.message}")


TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown", ".rst", ".org", ".adoc", ".tex"})


class FolderCorpus:
    """The text files below a folder, recognized by suffix, in name order.

    Hidden files and symbolic links are skipped. A passage's id is its file's path and its 1-based
    number in the file; its title is the path without suffix.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = sum(1 for path in files_below(folder) if is_text(path))
        self._read = 0
        if not self._files:
            text, rows = ", ".join(sorted(TEXT_SUFFIXES)), ", ".join(SHARD_SUFFIXES)
            raise UnreadableFile(f"the folder holds neither text ({text}) nor shards ({rows})")

    @property
    def share_read(self) -> float:
        """Fraction of the files read so far, from 0 to 1."""
        return min(1.0, self._read / self._files)

    def __iter__(self) -> Iterator[Passage | Problem]:
        self._read = 0
        for path in filter(is_text, files_below(self._folder)):
            name = name_in(self._folder, path)
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


def is_text(path: Path) -> bool:
    """Whether a file of a folder is text, by its suffix."""
    return path.suffix.lower() in TEXT_SUFFIXES


def is_shard(path: Path) -> bool:
    """Whether a file of a folder holds rows, by its suffix."""
    return path.name.lower().endswith(SHARD_SUFFIXES)


def name_in(folder: Path, path: Path) -> str:
    """The printable path of a file below a folder."""
    return os.fsencode(path.relative_to(folder)).decode(errors="replace")


def files_below(folder: Path) -> Iterator[Path]:
    """The files below a folder, depth first, without hidden ones and links; raises
    `UnreadableFile` for a folder that cannot be listed."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise UnreadableFile(f"the folder {folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def open_corpus(path: Path, *, ids_required: bool = False) -> Corpus:
    """Open a file of rows (JSONL, JSON, Parquet or gzip-compressed JSONL, detected by content), a
    folder of shards, or a folder of text.

    With ``ids_required`` a row without an id is a problem. Raises `UnreadableFile`.
    """
    if path.is_dir():
        return _open_folder(path, ids_required)
    if not path.exists():
        raise UnreadableFile("there is no such file")
    return RowCorpus(path, ids_required=ids_required)


def _open_folder(folder: Path, ids_required: bool) -> Corpus:
    shards = [path for path in files_below(folder) if is_shard(path)]
    if not shards:
        return FolderCorpus(folder)
    text = next(filter(is_text, files_below(folder)), None)
    if text is not None:
        raise UnreadableFile(
            f"the folder holds both rows ({name_in(folder, shards[0])}) and text "
            f"({name_in(folder, text)}): keep them in different folders"
        )
    return ShardedCorpus(folder, shards, ids_required=ids_required)
