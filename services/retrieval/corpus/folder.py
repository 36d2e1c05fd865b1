"""A folder of text files as a corpus: each is cut into passages."""

import os
from collections.abc import Iterator
from pathlib import Path

from services.datasets.record import MAX_ROW_BYTES, Problem, UnreadableFile
from services.retrieval.corpus.corpus import Passage
from services.retrieval.corpus.document import Document, joined
from services.retrieval.corpus.passages import cut

TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown", ".rst", ".org", ".adoc", ".tex"})


class FolderCorpus:
    """The text files below a folder, told by their suffixes, in the order of their names.

    Hidden files and links are passed over. A passage's id is the path of its file with its
    number in it, counted from 1; its title is the path without the suffix.
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
        """How many of the files were read, from 0 to 1."""
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
            contents=joined(title, passage),
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
    """Every text file below a folder, depth first; a folder that cannot be listed raises."""
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
