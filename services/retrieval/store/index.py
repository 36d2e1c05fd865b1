"""A passage index, open for searching."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path

import tantivy

from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.retrieval.indexes import IndexMode, IndexSummary
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.integrity import check_small_files
from services.retrieval.store.layout import VersionFolder, bytes_in
from services.retrieval.store.manifest import Manifest, read_manifest
from services.retrieval.store.nearest import Nearest, open_vectors
from services.retrieval.store.passages import Passages
from services.retrieval.store.query import Hit, Query
from services.retrieval.store.seals import check_seal
from services.retrieval.store.state import IndexState, Threads
from services.retrieval.store.text import TextIndex
from services.retrieval.store.tokens import Analyzer
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.index import DenseIndex


class Index:
    """A version of an index; thread-safe.

    Acknowledged changes by any process are seen by every later search. After an unreadable change
    the index keeps its previous state, and `problem` says why.
    """

    def __init__(
        self, version: VersionFolder, manifest: Manifest, dense: DenseIndex | None
    ) -> None:
        """Use `open` instead."""
        self.folder = version
        self.manifest = manifest
        self.dense = dense
        self.analyzer = Analyzer(manifest.language)
        self.problem: str | None = None
        self._text = TextIndex(version.text)
        self._loading = threading.Lock()
        cores = len(os.sched_getaffinity(0))
        self._threads = Threads(ThreadPoolExecutor(cores, thread_name_prefix="search"), cores)
        self._state = self._load(self._stamp())
        self._state.passages.check(manifest.documents)

    @classmethod
    def open(cls, version: VersionFolder | Path, *, device: str = "cpu") -> "Index":
        """Open a complete version; raises IndexUnusable with the reason.

        ``device`` is where vectors are searched: cpu, or cuda if faiss supports it.
        """
        if isinstance(version, Path):
            version = VersionFolder(version)
        manifest = read_manifest(version)
        check_small_files(version, manifest)
        try:
            return cls(version, manifest, open_vectors(version, manifest, device))
        except ValueError as error:
            raise IndexUnusable(f"{version.manifest}: {error}") from error

    @property
    def name(self) -> str:
        """The name the index was built under."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """The name of the version's folder."""
        return self.folder.path.name

    @property
    def generation(self) -> str:
        """Identifies the state a search would see; changes with every change of the index."""
        return f"{self.version}-{self._stamp()}"

    @property
    def count(self) -> int:
        """Number of passages."""
        return self._fresh().text.count

    @property
    def rows(self) -> int:
        """Number of passages ever stored; replaced and deleted ones still take space."""
        return self._fresh().passages.rows

    @property
    def words(self) -> Analyzer | None:
        """The analyzer of passages; None if the index is not searched by words."""
        return None if self.manifest.mode is IndexMode.DENSE else self.analyzer

    @property
    def memory_bytes(self) -> int:
        """Upper bound of what searching touches: mapped files and private memory."""
        parts = [self.folder.text, self.folder.passages / "places"]
        return sum(map(bytes_in, parts)) + (self.dense.memory_bytes if self.dense else 0)

    def search(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """The best passages of each query, best first; at most ``topk`` each.

        Batch many queries: they share the cores. Raises InvalidRequest for a mode the index lacks,
        DimensionMismatch for vectors of another dimension, IndexUnusable for damage.
        """
        for mode in {query.mode for query in queries}:
            self._check_mode(mode)
        return self._fresh().search(queries, self._threads)

    def document(self, document_id: str) -> bytes | None:
        """The JSON of a passage by id."""
        state = self._fresh()
        number = state.text.number_of(document_id)
        return None if number is None else state.passages.document(number)

    def documents(self, after: str | None, limit: int) -> list[bytes]:
        """The JSON of up to ``limit`` passages in insertion order.

        ``after`` is the id of the previous one; raises NotFound if it does not exist.
        """
        state = self._fresh()
        number = -1 if after is None else state.text.number_of(after)
        if number is None:
            raise NotFound(f"No document {after!r} in index {self.name!r}", param="after")
        return [state.passages.document(one) for one in islice(state.numbers_after(number), limit)]

    def summary(self) -> IndexSummary:
        """The index's summary for listings."""
        dense = self.manifest.dense
        return IndexSummary(
            name=self.name,
            version=self.version,
            mode=self.manifest.mode,
            documents=self.count,
            created_at=self.manifest.created_at,
            language=self.manifest.language,
            dense=dense.kind if dense else None,
            dimension=dense.dimension if dense else None,
            encoder=dense.encoder_name if dense else None,
            bytes_on_disk=bytes_in(self.folder.path),
            problem=self.problem,
        )

    def text_writer(self) -> tantivy.IndexWriter:
        """A writer for `Changes`, which holds the index's lock."""
        return self._text.writer()

    def close(self) -> None:
        """Stop the threads; files are released when running searches finish."""
        self._threads.pool.shutdown(wait=False)
        if self.dense is not None:
            self.dense.close()

    def _check_mode(self, mode: IndexMode) -> None:
        own = self.manifest.mode
        if own not in (mode, IndexMode.HYBRID):
            raise InvalidRequest(
                f"Index {self.name!r} can be searched by {own} only, not by {mode}", param="mode"
            )

    def _fresh(self) -> IndexState:
        """The state after the last readable change."""
        stamp = self._stamp()
        if stamp not in (None, self._state.stamp):
            with self._loading:
                if self._state.stamp != stamp:
                    self._renew(str(stamp))
        return self._state

    def _renew(self, stamp: str) -> None:
        try:
            self._state, self.problem = self._load(stamp), None
        except (IndexUnusable, VectorsUnusable) as error:
            self._state = replace(self._state, stamp=stamp)
            self.problem = error.message

    def _load(self, stamp: str) -> IndexState:
        """Load a state: everything a commit refers to was written before it."""
        check_seal(self.folder.commit, required=self.manifest.sealed)
        text = self._text.searcher()
        passages = Passages(self.folder.passages)
        if self.dense is not None:
            self.dense.refresh()
        nearest = Nearest(self.dense, text) if self.dense is not None else None
        return IndexState(stamp, self.analyzer, text, passages, nearest)

    def _stamp(self) -> str:
        """A cheap fingerprint of the text index's last commit."""
        try:
            meta = self.folder.commit.stat()
        except FileNotFoundError:
            return self._state.stamp  # The index was dropped; keep serving what is open.
        return f"{meta.st_mtime_ns:x}.{meta.st_ino:x}"
