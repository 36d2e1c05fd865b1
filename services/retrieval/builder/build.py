"""Building an index aside, and switching to it."""

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from services.contracts.errors import InvalidRequest, StorageFull
from services.contracts.index_messages import BuildIndex, IndexBuilt
from services.contracts.indexes import IndexBuildMetrics, IndexMode
from services.retrieval.builder.encoding import StartEncoder
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.builder.state import BuildState, corpus_identity, read_state
from services.retrieval.builder.text import analysis_of, write_text
from services.retrieval.builder.vectors import write_vectors
from services.retrieval.corpus.corpus import open_corpus
from services.retrieval.corpus.validation import CheckedCorpus
from services.retrieval.encoder.specification import (
    DEFAULT_MODEL,
    EncoderDescription,
    EncoderSpecification,
)
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.layout import IndexFolder, VersionFolder
from services.retrieval.store.manifest import DenseManifest, Manifest, finish_version
from services.retrieval.store.store import IndexStore, Writing
from services.retrieval.vectors.errors import VectorsUnusable


@dataclass(frozen=True)
class Surroundings:
    """What a process works with: the indexes, and how an encoder is had."""

    store: IndexStore
    start_encoder: StartEncoder


class BuildAttempt:
    """One attempt; ``goes_on`` says that an earlier one had begun."""

    def __init__(
        self, order: BuildIndex, writing: Writing, around: Surroundings, progress: BuildProgress
    ) -> None:
        self._order = order
        self._around = around
        self._progress = progress
        self._version = writing.building
        self.goes_on = False
        self._state = self._taken_up(writing)

    def run(self) -> None:
        """Bring the version in the making to its end."""
        specification = self._order.specification
        if self._state.passages is None:
            passages = write_text(self._version, specification, self._checked(), self._progress)
            self._keep(passages=passages)
        dense = None if specification.mode is IndexMode.BM25 else self._write_vectors()
        if corpus_identity(self._order.corpus) != self._state.corpus:
            raise InvalidRequest("the corpus was changed while it was read", param="file")
        manifest = Manifest(
            name=self._order.index,
            mode=specification.mode,
            language=specification.language,
            documents=self._state.passages or 0,
            dense=dense,
        )
        finish_version(self._version, manifest)

    def _taken_up(self, writing: Writing) -> BuildState:
        """What is there of this index already; anything else is removed."""
        wanted = BuildState.of(self._order)
        left = read_state(self._version)
        if left is not None and wanted.is_of_same_index(left):
            wanted = left.model_copy(update={"build": wanted.build})
            self.goes_on = True
            self._progress.message("going on with what an earlier attempt has built")
        else:
            writing.discard()
        self._version.path.mkdir(parents=True, exist_ok=True)
        wanted.write(self._version)
        return wanted

    def _keep(self, **changes: object) -> None:
        self._state = self._state.model_copy(update=changes)
        self._state.write(self._version)

    def _checked(self) -> CheckedCorpus:
        return CheckedCorpus(open_corpus(self._order.corpus), self._order.corpus_name)

    def _write_vectors(self) -> DenseManifest:
        wanted = EncoderSpecification(model=self._order.specification.encoder or DEFAULT_MODEL)
        self._progress.begin("starting_encoder")
        with self._around.start_encoder(wanted) as encoder:
            self._settle_encoder(encoder.description)
            kind = write_vectors(
                self._version,
                self._order.specification.dense,
                open_corpus(self._order.corpus),
                self._state.passages or 0,
                encoder,
                self._progress,
            )
            return DenseManifest(
                kind=kind,
                dimension=encoder.description.dimension,
                encoder=encoder.description.model_dump(mode="json"),
            )

    def _settle_encoder(self, encoder: EncoderDescription) -> None:
        """Vectors that are there already must come from the same encoder, or go."""
        earlier = self._state.encoder
        if earlier is not None and earlier.fingerprint != encoder.fingerprint:
            self._progress.message("the encoder has changed; all passages are encoded anew")
            _remove_vectors(self._version)
        self._keep(encoder=encoder)


def _remove_vectors(version: VersionFolder) -> None:
    """Remove what there is of vectors."""
    for path in version.dense.glob("*"):
        path.unlink()


LOCK_SECONDS = 30.0
"""How long a build waits for another build, or a change, of the same index."""


def build_index(order: BuildIndex, around: Surroundings, progress: BuildProgress) -> IndexBuilt:
    """Carry out an order from wherever an earlier attempt at it was ended.

    The index of that name answers as before until the new version is complete. Raises
    `InvalidCorpus`, `StorageFull`, `IndexBusy` and what goes wrong with an encoder; the index is
    then as it was.
    """
    begun = time.monotonic()
    analysis_of(order.specification)
    with around.store.writing(order.index, LOCK_SECONDS) as writing:
        version = _made_before(order, around.store)
        if version is None:
            with _undone_when_useless(writing, order):
                _make_version(order, writing, around, progress)
                version = writing.publish()
    seconds = time.monotonic() - begun
    summary = around.store.summary(order.index)
    metrics = IndexBuildMetrics(
        documents=summary.documents,
        bytes_on_disk=summary.bytes_on_disk,
        seconds=seconds,
        documents_per_second=summary.documents / seconds,
    )
    return IndexBuilt(index=order.index, version=version, metrics=metrics)


def _make_version(
    order: BuildIndex, writing: Writing, around: Surroundings, progress: BuildProgress
) -> None:
    """Go on with what is there, or begin anew where that turns out to be damaged."""
    build = BuildAttempt(order, writing, around, progress)
    try:
        build.run()
    except (IndexUnusable, VectorsUnusable) as error:
        if not build.goes_on:
            raise
        progress.message(f"what an earlier attempt left is of no use: {error.message}")
        writing.discard()
        BuildAttempt(order, writing, around, progress).run()


def _made_before(order: BuildIndex, store: IndexStore) -> str | None:
    """The version that this same build made, if it was killed before it could say so."""
    version = store.version(order.index)
    if version is None:
        return None
    state = read_state(IndexFolder(store.root / order.index).version(version))
    return version if state is not None and state.build == order.build else None


@contextmanager
def _undone_when_useless(writing: Writing, order: BuildIndex) -> Iterator[None]:
    """Remove what was built of a corpus that no index can be made of, or that the disk cannot
    hold: others need the room. After any other end a later attempt goes on with it."""
    try:
        yield
    except InvalidRequest:
        writing.discard()
        raise
    except (StorageFull, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        writing.discard()
        reason = error.message if isinstance(error, StorageFull) else "the disk is full"
        raise StorageFull(
            f"{reason}; index {order.index!r} is as it was before, and what was built is removed: "
            f"make room where {writing.building.path} is (or set TEMPER_RETRIEVAL_INDEXES to a "
            "larger disk) and build it again"
        ) from error
