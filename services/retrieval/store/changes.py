"""Adds, replaces and deletes passages of an index while it is served."""

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
from services.retrieval.store.seals import check_seal, seal, unseal
from services.retrieval.vectors.errors import DimensionMismatch

logger = logging.getLogger(__name__)

MAX_ADDED = 100_000
"""Limit of passages added or replaced since the build; an index without vectors takes at least as
many as it was built with."""

_MIN_FREE = 1 << 20  # bytes


class Changes:
    """Changes the passages of an index; safe for threads and processes.

    A change is atomic, durable on return, and seen by every later search in any process. All
    methods raise IndexBusy when a build or another change holds the index for ``timeout`` seconds
    or a different version is served by now, and OutOfDisk when the disk is full, with the index
    unchanged.
    """

    def __init__(self, index: Index, timeout: float = 10.0) -> None:
        """Change ``index``, whose own searches see the changes first."""
        self._index = index
        self._timeout = timeout
        self._folder = index.folder

    def put(self, documents: Sequence[Document], vectors: np.ndarray | None = None) -> int:
        """Add passages, replacing those with the same ids; returns their number.

        Of duplicates in ``documents`` the last counts. ``vectors`` (n, dimension) are required if
        the index has vectors. Raises DimensionMismatch, or IndexFull when the index should be
        rebuilt.
        """
        self._check_vectors(documents, vectors)
        last = list({one.id: place for place, one in enumerate(documents)}.values())
        if not last:
            return 0
        chosen = [documents[place] for place in last]
        with self._locked():
            self._check_room(len(chosen))
            contents = [document.to_json() for document in chosen]
            self._check_disk(sum(map(len, contents)))
            numbers = self._store(contents)
            if self._index.dense is not None and vectors is not None:
                self._index.dense.refresh()
                self._index.dense.add(np.array(numbers, dtype=np.int64), vectors[last])
            entries = [
                text_entry(number, document, self._index.words)
                for number, document in zip(numbers, chosen, strict=True)
            ]
            self._write([bounded_term(document.id) for document in chosen], entries)
        return len(chosen)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id; returns how many existed."""
        terms = sorted({bounded_term(one) for one in ids})
        with self._locked():
            before = self._index.count
            self._write(terms, [])
            return before - self._index.count

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the index's lock, provided its version is still the served one."""
        folder = IndexFolder(self._folder.path.parent)
        if folder.served is None:
            raise UnknownIndex(f"Index {self._index.name!r} no longer exists", param="index")
        with locked(folder.lock, self._timeout):
            if folder.served != self._folder.path.name:
                raise IndexBusy(f"{self._index.name!r} was switched to another version; try again")
            yield

    def _check_vectors(self, documents: Sequence[Document], vectors: np.ndarray | None) -> None:
        dense = self._index.dense
        if (dense is None) != (vectors is None):
            raise ValueError("vectors are required exactly for an index that has vectors")
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
                f"{added} passages were added to or replaced in {self._index.name!r} since its"
                f" build, and the limit is {most}: rebuild it"
            )

    def _check_disk(self, size: int) -> None:
        """Refuse a change likely to fail halfway for lack of space."""
        if shutil.disk_usage(self._folder.path).free < _MIN_FREE + 4 * size:
            raise OutOfDisk(f"the disk of {self._folder.path} is full; the index is unchanged")

    def _store(self, documents: Sequence[bytes]) -> range:
        """Append the passages; returns their new, never used numbers."""
        folder = self._folder.passages
        with writing_to(folder), PassageWriter(folder) as writer:
            numbers = writer.append(documents)
            writer.sync()
        return numbers

    def _write(self, deleted: Sequence[str], entries: Sequence[tantivy.Document]) -> None:
        """Apply the change; the commit makes it visible."""
        check_seal(self._folder.commit, required=self._index.manifest.sealed)
        with writing_to(self._folder.text):
            unseal(self._folder.commit)
            writer = self._index.text_writer()
            try:
                for term in deleted:
                    writer.delete_documents_by_term(ID, term)
                for entry in entries:
                    writer.add_document(entry)
                writer.commit()
                sync_folder(self._folder.text)
                _merge_and_seal(writer, self._folder.commit)
            finally:
                del writer  # Releases tantivy's lock even if a traceback keeps this frame alive.


def _merge_and_seal(writer: tantivy.IndexWriter, commit: Path) -> None:
    """Merge small segments and seal the result. The change is already durable, so failures are only
    logged."""
    try:
        writer.wait_merging_threads()
        seal(commit)
    except (OSError, ValueError) as error:
        logger.warning("segments of an index could not be merged: %s", error)
