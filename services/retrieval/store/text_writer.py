"""Writing the passages of a new version, in pieces that outlive the process."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import tantivy

from services.retrieval.corpus.document import Document
from services.retrieval.store.errors import IndexUnusable, writing_to
from services.retrieval.store.layout import VersionFolder, sync_folder
from services.retrieval.store.passages import PassageWriter
from services.retrieval.store.schema import new_schema, text_entry
from services.retrieval.store.tokens import Analysis

_HEAP_BYTES = 128_000_000


class TextWriter:
    """Writes passages and their words into a version in the making; one writer at a time.

    Passages get the numbers 0, 1, 2 ... in the order in which they are added. What was committed
    is there after a kill, and nothing else is. All methods raise OutOfDisk when the disk is full;
    the writer is of no more use then, and a new one goes on from the last commit.
    """

    def __init__(
        self, version: VersionFolder, analysis: Analysis, *, searchable: bool = True
    ) -> None:
        """Go on after what was committed; without ``searchable`` no words are kept."""
        self._folder = version.text
        self._analysis = analysis if searchable else None
        with writing_to(version.path):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._index = tantivy.Index(new_schema(), path=str(self._folder))
            self._index.config_reader("manual")
            self._index.reload()
            self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
            self._writer.garbage_collect_files()  # What a killed process left.
            self._rows = self._index.searcher().num_docs
            self._passages = PassageWriter(version.passages, rows=self._rows)
        if self._passages.rows < self._rows:
            raise IndexUnusable(f"{version.passages} lacks passages that {version.text} has")

    @property
    def rows(self) -> int:
        """How many passages were committed."""
        return self._rows

    def add(self, documents: Sequence[Document]) -> None:
        """Add passages."""
        with writing_to(self._folder):
            numbers = self._passages.append([document.to_json() for document in documents])
            for number, document in zip(numbers, documents, strict=True):
                self._writer.add_document(text_entry(number, document, self._analysis))

    def commit(self) -> None:
        """Make durable what was added."""
        with writing_to(self._folder):
            self._passages.sync()
            self._writer.commit()
            sync_folder(self._folder)
        self._rows = self._passages.rows

    def finish(self) -> None:
        """Commit, and bring what was written into the form that is searched fastest."""
        self.commit()
        with writing_to(self._folder):
            self._writer.wait_merging_threads()
            sync_folder(self._folder)

    def close(self) -> None:
        """Stop; what was not committed is gone."""
        self._passages.close()
        del self._writer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
