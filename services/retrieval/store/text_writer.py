"""Writes the passages of a new version, in commits that outlive the process."""

from collections.abc import Sequence
from typing import Self

import tantivy

from services.retrieval.corpus.document import Document
from services.retrieval.store.errors import IndexUnusable, writing_to
from services.retrieval.store.layout import VersionFolder, sync_folder
from services.retrieval.store.passages import PassageWriter
from services.retrieval.store.schema import new_schema, text_entry
from services.retrieval.store.seals import seal, unseal
from services.retrieval.store.tokens import Analyzer

_HEAP_BYTES = 128_000_000


class TextWriter:
    """Writes passages and their words; one writer at a time.

    Passages are numbered 0, 1, 2, ... in insertion order. Exactly what was committed survives a
    kill. All methods raise OutOfDisk when the disk is full; then a new writer must continue from
    the last commit.
    """

    def __init__(
        self, version: VersionFolder, analyzer: Analyzer, *, searchable: bool = True
    ) -> None:
        """Continue after the last commit; with ``searchable`` False no words are indexed."""
        self._folder = version.text
        self._commit = version.commit
        self._analysis = analyzer if searchable else None
        with writing_to(version.path):
            self._folder.mkdir(parents=True, exist_ok=True)
            unseal(self._commit)
            self._index = tantivy.Index(new_schema(), path=str(self._folder))
            self._index.config_reader("manual")
            self._index.reload()
            self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
            self._writer.garbage_collect_files()  # Leftovers of a killed process.
            self._rows = self._index.searcher().num_docs
            self._passages = PassageWriter(version.passages, rows=self._rows)
        if self._passages.rows < self._rows:
            raise IndexUnusable(f"{version.passages} lacks passages that {version.text} has")

    @property
    def rows(self) -> int:
        """Committed passages."""
        return self._rows

    def add(self, documents: Sequence[Document]) -> None:
        """Add passages."""
        with writing_to(self._folder):
            numbers = self._passages.append([document.to_json() for document in documents])
            for number, document in zip(numbers, documents, strict=True):
                self._writer.add_document(text_entry(number, document, self._analysis))

    def commit(self) -> None:
        """Make added passages durable."""
        with writing_to(self._folder):
            self._passages.sync()
            self._writer.commit()
            sync_folder(self._folder)
        self._rows = self._passages.rows

    def finish(self) -> None:
        """Commit and merge segments for fast search."""
        self.commit()
        with writing_to(self._folder):
            self._writer.wait_merging_threads()
            seal(self._commit)
            sync_folder(self._folder)

    def close(self) -> None:
        """Close; uncommitted passages are lost."""
        self._passages.close()
        del self._writer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
