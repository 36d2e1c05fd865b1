"""Adding, replacing and deleting passages of an index that is being served."""

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tantivy

from services.retrieval.corpus.document import Document
from services.retrieval.store.errors import (
    IndexBusy,
    IndexFull,
    OutOfDisk,
    UnknownIndex,
    writing_to,
)
from services.retrieval.store.index import Index
from services.retrieval.store.layout import IndexFolder, locked, sync_folder
from services.retrieval.store.metadata import bounded_term
from services.retrieval.store.passages import PassageWriter
from services.retrieval.store.schema import ID, text_entry
from services.retrieval.vectors.errors import DimensionMismatch

logger = logging.getLogger(__name__)

MAX_ADDED = 100_000
"""Passages that may be added to or replaced in an index since its build; one without vectors takes
as many as it was built with, if that is more."""

_LEAST_FREE = 1 << 20  # bytes


class Changes:
    """Changes the passages of an index. Safe to use from threads and by several processes.

    A change is durable when it returns, and seen by each search that begins later, in whichever
    process; a change that was broken off has happened in whole or not at all. All raise IndexBusy
    while a build or others' changes have the index for ``timeout`` seconds, or when another
    version is served by now, and OutOfDisk when the disk is full, with the index as it was.
    """

    def __init__(self, index: Index, timeout: float = 10.0) -> None:
        """Change ``index``, which is also the one to see the changes first."""
        self._index = index
        self._timeout = timeout
        self._folder = index.folder

    def put(self, documents: Sequence[Document], vectors: np.ndarray | None = None) -> int:
        """Add passages, or replace those of the same id; how many.

        Of several with one id the last counts. ``vectors`` (n, dimension) are theirs, for an index
        that has vectors. Raises DimensionMismatch, or IndexFull when the index should be built
        again.
        """
        self._check_vectors(documents, vectors)
        kept = list({one.id: place for place, one in enumerate(documents)}.values())
        if not kept:
            return 0
        chosen = [documents[place] for place in kept]
        with self._locked():
            self._check_room(len(chosen))
            contents = [document.to_json() for document in chosen]
            self._check_disk(sum(map(len, contents)))
            numbers = self._store(contents)
            if self._index.dense is not None and vectors is not None:
                self._index.dense.refresh()
                self._index.dense.add(np.array(numbers, dtype=np.int64), vectors[kept])
            entries = [
                text_entry(number, document, self._index.words)
                for number, document in zip(numbers, chosen, strict=True)
            ]
            self._write([bounded_term(document.id) for document in chosen], entries)
        return len(chosen)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the passages of those ids; how many there were."""
        terms = sorted({bounded_term(one) for one in ids})
        with self._locked():
            before = self._index.count
            self._write(terms, [])
            return before - self._index.count

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the index while its version is the one that is served."""
        folder = IndexFolder(self._folder.path.parent)
        if folder.served is None:
            raise UnknownIndex(f"Index {self._index.name!r} is there no more", param="index")
        with locked(folder.lock, self._timeout):
            if folder.served != self._folder.path.name:
                raise IndexBusy(
                    f"Another version of {self._index.name!r} is served by now; try again"
                )
            yield

    def _check_vectors(self, documents: Sequence[Document], vectors: np.ndarray | None) -> None:
        dense = self._index.dense
        if (dense is None) != (vectors is None):
            raise ValueError("vectors are for an index that has some, and it needs them")
        if vectors is None or dense is None:
            return
        if vectors.shape != (len(documents), dense.dimension):
            raise DimensionMismatch(index=dense.dimension, given=vectors.shape[-1])

    def _check_room(self, more: int) -> None:
        built = self._index.manifest.documents
        most = MAX_ADDED if self._index.dense is not None else max(MAX_ADDED, built)
        added = self._index.rows - built
        if added + more > most:
            raise IndexFull(
                f"{added} passages were added to or replaced in {self._index.name!r} since it was"
                f" built, and {most} may be: build it again"
            )

    def _check_disk(self, size: int) -> None:
        """Refuse what would most likely fail half-way, and leave its passages without words."""
        if shutil.disk_usage(self._folder.path).free < _LEAST_FREE + 4 * size:
            raise OutOfDisk(f"the disk of {self._folder.path} is full; the index is as it was")

    def _store(self, documents: Sequence[bytes]) -> range:
        """Keep the passages and give them their numbers, which nothing has seen before."""
        folder = self._folder.passages
        with writing_to(folder), PassageWriter(folder) as writer:
            numbers = writer.append(documents)
            writer.sync()
        return numbers

    def _write(self, gone: Sequence[str], entries: Sequence[tantivy.Document]) -> None:
        """Make the change: until the commit it did not happen, after it it did."""
        with writing_to(self._folder.text):
            writer = self._index.text_writer()
            try:
                for term in gone:
                    writer.delete_documents_by_term(ID, term)
                for entry in entries:
                    writer.add_document(entry)
                writer.commit()
                sync_folder(self._folder.text)
                _merge(writer)
            finally:
                del writer  # Lets go of the library's own lock, whatever holds the traceback.


def _merge(writer: tantivy.IndexWriter) -> None:
    """Let the library join small pieces. The change is made already, so this must not fail it."""
    try:
        writer.wait_merging_threads()
    except (OSError, ValueError) as error:
        logger.warning("pieces of an index could not be joined: %s", error)
