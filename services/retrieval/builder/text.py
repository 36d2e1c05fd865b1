"""First half of a build: the passage store and the text index."""

from services.contracts.errors import InvalidRequest
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.document import Document
from services.retrieval.corpus.identities import IdLog
from services.retrieval.corpus.validation import CheckedCorpus
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.text_writer import TextWriter
from services.retrieval.store.tokens import Analyzer

IDS = "ids"
COMMIT_PASSAGES = 10_000
"""Passages per commit: a kill loses at most this many."""

_ADD_CHUNK = 500


def analyzer_for(specification: IndexSpecification) -> Analyzer:
    """The analyzer of an index; raises `InvalidRequest` for an unknown language."""
    try:
        return Analyzer(specification.language)
    except ValueError as error:
        raise InvalidRequest(str(error), param="language") from None


def write_text(
    version: VersionFolder,
    specification: IndexSpecification,
    corpus: CheckedCorpus,
    progress: BuildProgress,
) -> int:
    """Write the passages missing from earlier attempts; return the total number.

    Raises `InvalidCorpus` with all problems, duplicate ids included, and `StorageFull`.
    """
    searchable = specification.mode is not IndexMode.DENSE
    with (
        TextWriter(version, analyzer_for(specification), searchable=searchable) as writer,
        IdLog(version.path / IDS) as ids,
    ):
        _Text(writer, ids, progress).write(corpus)
        corpus.check_ids(ids)
        corpus.raise_problems()
        writer.finish()
        return writer.rows


class _Text:
    """One attempt at writing the passages."""

    def __init__(self, writer: TextWriter, ids: IdLog, progress: BuildProgress) -> None:
        self._writer = writer
        self._ids = ids
        self._progress = progress
        self._begun_with = writer.rows
        self._batch: list[Document] = []
        self._uncommitted = 0

    def write(self, corpus: CheckedCorpus) -> None:
        """Read the whole corpus; after the first problem nothing more is written."""
        self._progress.begin("reading", self._begun_with)
        for number, passage in enumerate(corpus):
            self._ids.add((passage.document.id,))
            if number < self._begun_with or corpus.problems:
                continue
            self._batch.append(passage.document)
            if len(self._batch) == _ADD_CHUNK:
                self._add()
                done = number + 1
                self._progress.report(done, done / max(corpus.share_read, 1e-9))
        self._add()
        self._writer.commit()
        self._progress.report(corpus.passages, corpus.passages)

    def _add(self) -> None:
        self._writer.add(self._batch)
        self._uncommitted += len(self._batch)
        self._batch.clear()
        if self._uncommitted >= COMMIT_PASSAGES:
            self._writer.commit()
            self._uncommitted = 0
