"""Builds a new version of an index, and switches to it."""

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from services.contracts.errors import InvalidRequest, StorageFull
from services.contracts.retrieval.index_messages import BuildIndex, IndexBuilt
from services.contracts.retrieval.indexes import IndexBuildMetrics, IndexMode
from services.retrieval.builder.encoding import PassageEncoder, StartEncoder
from services.retrieval.builder.importing import check_vectors, import_vectors
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.builder.state import BuildState, read_state
from services.retrieval.builder.text import analyzer_for, write_text
from services.retrieval.builder.vectors import encode_passages, write_vectors
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
from services.retrieval.store.store import IndexStore, PendingVersion
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.published import PublishedVectors


@dataclass(frozen=True)
class BuildContext:
    """Build dependencies: the index store and an encoder factory."""

    store: IndexStore
    start_encoder: StartEncoder


class BuildAttempt:
    """One attempt at building a version; ``is_resumed`` when it continues an earlier one."""

    def __init__(
        self,
        request: BuildIndex,
        writing: PendingVersion,
        context: BuildContext,
        progress: BuildProgress,
    ) -> None:
        self._request = request
        self._context = context
        self._progress = progress
        self._version = writing.building
        self.is_resumed = False
        self._state = self._resume_or_start(writing)

    def run(self) -> None:
        """Complete the pending version."""
        specification = self._request.specification
        with self._encoder() as encoder:  # first: fail before hours of indexing
            published = self._published(encoder)
            if self._state.passages is None:
                passages = write_text(self._version, specification, self._checked(), self._progress)
                self._save(passages=passages)
            dense = None if encoder is None else self._write_vectors(encoder, published)
        if not BuildState.of(self._request).is_of_same_index(self._state):
            raise InvalidRequest("the corpus changed while it was being read", param="file")
        manifest = Manifest(
            name=self._request.index,
            mode=specification.mode,
            language=specification.language,
            documents=self._state.passages or 0,
            dense=dense,
        )
        finish_version(self._version, manifest)

    def _resume_or_start(self, writing: PendingVersion) -> BuildState:
        """Adopt the state an earlier attempt left for the same index; discard anything else."""
        wanted = BuildState.of(self._request)
        left = read_state(self._version)
        if left is not None and wanted.is_of_same_index(left):
            wanted = left.model_copy(update={"build": wanted.build})
            self.is_resumed = True
            self._progress.message("resuming an earlier attempt")
        else:
            writing.discard()
        self._version.path.mkdir(parents=True, exist_ok=True)
        wanted.write(self._version)
        return wanted

    def _save(self, **changes: object) -> None:
        self._state = self._state.model_copy(update=changes)
        self._state.write(self._version)

    def _checked(self) -> CheckedCorpus:
        return CheckedCorpus(open_corpus(self._request.corpus), self._request.corpus_name)

    @contextmanager
    def _encoder(self) -> Iterator[PassageEncoder | None]:
        """Run the encoder, unless the index has no vectors."""
        if self._request.specification.mode is IndexMode.BM25:
            yield None
            return
        wanted = EncoderSpecification(model=self._request.specification.encoder or DEFAULT_MODEL)
        self._progress.begin("starting_encoder")
        with self._context.start_encoder(wanted) as encoder:
            yield encoder

    def _published(self, encoder: PassageEncoder | None) -> PublishedVectors | None:
        """The vectors to import, if any; they must be the encoder's."""
        if self._request.vectors is None or encoder is None:
            return None
        published = PublishedVectors(self._request.vectors)
        check_vectors(published, encoder, open_corpus(self._request.corpus))
        return published

    def _write_vectors(
        self, encoder: PassageEncoder, published: PublishedVectors | None
    ) -> DenseManifest:
        self._adopt_encoder(encoder.description)
        passages = self._state.passages or 0

        def fill(builder: DenseBuilder) -> None:
            if published is not None:
                import_vectors(builder, published, passages, self._progress)
                return
            corpus = open_corpus(self._request.corpus)
            encode_passages(builder, corpus, passages, encoder, self._progress)

        parameters = DenseParameters(
            dimension=encoder.description.dimension, kind=self._request.specification.dense
        )
        kind = write_vectors(self._version, parameters, passages, fill, self._progress)
        return DenseManifest(
            kind=kind,
            dimension=encoder.description.dimension,
            encoder=encoder.description.model_dump(mode="json"),
        )

    def _adopt_encoder(self, encoder: EncoderDescription) -> None:
        """Keep earlier vectors only if the same encoder made them."""
        earlier = self._state.encoder
        if earlier is not None and earlier.fingerprint != encoder.fingerprint:
            self._progress.message("the encoder has changed; re-encoding all passages")
            _remove_vectors(self._version)
        self._save(encoder=encoder)


def _remove_vectors(version: VersionFolder) -> None:
    """Delete all vector files of a pending version."""
    for path in version.dense.glob("*"):
        path.unlink()


LOCK_SECONDS = 30.0
"""How long a build waits for a concurrent build or change of the same index."""


def build_index(request: BuildIndex, context: BuildContext, progress: BuildProgress) -> IndexBuilt:
    """Build an index, resuming whatever an earlier attempt at the same build left.

    The index of that name keeps serving its current version until the new one is complete. Raises
    `InvalidCorpus`, `StorageFull`, `IndexBusy` and encoder errors; the index is then unchanged.
    """
    start = time.monotonic()
    analyzer_for(request.specification)
    with context.store.writing(request.index, LOCK_SECONDS) as writing:
        version = _already_published(request, context.store)
        if version is None:
            with _discard_unless_resumable(writing, request):
                _make_version(request, writing, context, progress)
                version = writing.publish()
    seconds = time.monotonic() - start
    summary = context.store.summary(request.index)
    metrics = IndexBuildMetrics(
        documents=summary.documents,
        bytes_on_disk=summary.bytes_on_disk,
        seconds=seconds,
        documents_per_second=summary.documents / seconds,
    )
    return IndexBuilt(index=request.index, version=version, metrics=metrics)


def _make_version(
    request: BuildIndex, writing: PendingVersion, context: BuildContext, progress: BuildProgress
) -> None:
    """Resume an earlier attempt, or start over when its files turn out to be damaged."""
    build = BuildAttempt(request, writing, context, progress)
    try:
        build.run()
    except (IndexUnusable, VectorsUnusable) as error:
        if not build.is_resumed:
            raise
        progress.message(f"discarding an unusable earlier attempt: {error.message}")
        writing.discard()
        BuildAttempt(request, writing, context, progress).run()


def _already_published(request: BuildIndex, store: IndexStore) -> str | None:
    """The version published by an earlier attempt of this build that died before reporting it."""
    version = store.version(request.index)
    if version is None:
        return None
    state = read_state(IndexFolder(store.root / request.index).version(version))
    return version if state is not None and state.build == request.build else None


@contextmanager
def _discard_unless_resumable(writing: PendingVersion, request: BuildIndex) -> Iterator[None]:
    """Discard the pending version when the corpus is invalid or the disk is full (others need the
    space); after any other failure a later attempt resumes it."""
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
            f"{reason}; index {request.index!r} is unchanged, the partial build removed: "
            f"free space on the disk of {writing.building.path} (or set TEMPER_RETRIEVAL_INDEXES "
            "to a larger disk) and rebuild it"
        ) from error
