"""Second half of a build: the passages' vectors, computed or imported."""

import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from services.contracts.errors import InvalidRequest, StorageFull
from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.builder.encoding import PassageEncoder
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.corpus import Corpus, Passage
from services.retrieval.store.layout import VersionFolder
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters

ENCODE_CHUNK = 1024
_FLOAT_BYTES = 4


def write_vectors(
    version: VersionFolder,
    parameters: DenseParameters,
    passages: int,
    fill: Callable[[DenseBuilder], None],
    progress: BuildProgress,
) -> DenseKind:
    """Have ``fill`` append the vectors missing from earlier attempts, then build the vector index.

    ``passages`` is the number in the corpus. Returns the resolved kind. Raises `StorageFull` and
    what ``fill`` does.
    """
    with DenseBuilder(version.dense, parameters) as builder:
        if builder.rows > passages:
            builder.truncate(passages)
        _check_room(version, (passages - builder.rows) * parameters.dimension * _FLOAT_BYTES)
        fill(builder)
        progress.begin("arranging_vectors")
        builder.finish(lambda share: progress.report(int(share * passages), passages))
        return builder.kind


def encode_passages(
    builder: DenseBuilder,
    corpus: Corpus,
    passages: int,
    encoder: PassageEncoder,
    progress: BuildProgress,
) -> None:
    """Encode the passages missing from earlier attempts; raises encoder errors."""
    progress.begin("encoding", builder.rows)
    texts = (item.document.contents for item in corpus if isinstance(item, Passage))
    waiting = islice(texts, builder.rows, None)
    while batch := list(islice(waiting, ENCODE_CHUNK)):
        builder.append(encoder.encode(batch))
        progress.report(builder.rows, passages)
    if builder.rows != passages:
        raise InvalidRequest(
            f"the corpus had {passages:,} passages when it was first read, and has "
            f"{builder.rows:,} now: do not modify it during the build",
            param="file",
        )


def _check_room(version: VersionFolder, needed: int) -> None:
    """Fail now rather than hours into the build."""
    free = free_bytes(version.path)
    if free < needed:
        raise StorageFull(
            f"the vectors take {needed / 1e9:.1f} GB, and the disk of {version.path} "
            f"has {free / 1e9:.1f} GB left"
        )


def free_bytes(folder: Path) -> int:
    """Free space of the folder's disk."""
    return shutil.disk_usage(folder).free
