"""Building an index aside, and switching to it."""

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager

from services.contracts.errors import InvalidRequest, StorageFull
from services.contracts.index_messages import BuildIndex, IndexBuilt
from services.contracts.indexes import IndexBuildMetrics
from services.retrieval.builder.attempt import BuildAttempt, Surroundings
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.builder.state import read_state
from services.retrieval.builder.text import analysis_of
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.layout import IndexFolder
from services.retrieval.store.store import IndexStore
from services.retrieval.store.writing import Writing
from services.retrieval.vectors.errors import VectorsUnusable

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
