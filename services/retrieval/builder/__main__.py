"""The builder process: ``python -m services.retrieval.builder FOLDER [PARENT_PID]``.

It reads the message in FOLDER, runs in the core environment, and writes result.json. It may be
killed at any time and rerun on the same folder: a build resumes where it stopped. With PARENT_PID
it exits when that process does.
"""

import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from services.contracts.errors import TemperError
from services.contracts.retrieval.index_messages import (
    MESSAGE_FILE,
    BuildIndex,
    DeletePassages,
    DropIndex,
    IndexDropped,
    Indexes,
    IndexMessage,
    ListIndexes,
    PutCorpus,
    SearchIndex,
)
from services.contracts.retrieval.indexes import IndexSummary
from services.core.process.reporter import Reporter
from services.retrieval.builder.build import BuildContext, build_index
from services.retrieval.builder.changes import delete_documents, put_documents
from services.retrieval.builder.encoding import PassageEncoder, running_encoder
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.builder.search import search_index
from services.retrieval.corpus.validation import InvalidCorpus
from services.retrieval.encoder.specification import EncoderSpecification
from services.retrieval.index_settings import IndexSettings
from services.retrieval.parent import die_with_parent
from services.retrieval.store.errors import IndexUnusable, UnknownIndex
from services.retrieval.store.store import IndexStore

ENCODER_LOG = "encoder.log"
LOCK_SECONDS = 30.0


def execute(request: IndexMessage, folder: Path, reporter: Reporter) -> BaseModel:
    """Execute a message; ``folder`` holds it and receives logs. Raises `TemperError`."""
    settings = IndexSettings()
    store = IndexStore(settings.indexes_folder)

    def start_encoder(wanted: EncoderSpecification) -> AbstractContextManager[PassageEncoder]:
        return running_encoder(wanted, settings.runtimes_folder, folder / ENCODER_LOG)

    context = BuildContext(store, start_encoder)
    progress = BuildProgress(reporter)
    match request:
        case BuildIndex():
            return build_index(request, context, progress)
        case PutCorpus():
            return put_documents(request, context, progress)
        case DeletePassages():
            return delete_documents(request, context)
        case SearchIndex():
            return search_index(request, context)
        case DropIndex():
            _drop(store, request.index)
            return IndexDropped(index=request.index)
        case ListIndexes():
            return Indexes(indexes=_listed(store, request.index))


def _listed(store: IndexStore, name: str | None) -> list[IndexSummary]:
    if name is not None:
        return [store.summary(name)]
    summaries = (_summary(store, each) for each in store.names())
    return [summary for summary in summaries if summary is not None]


def _summary(store: IndexStore, name: str) -> IndexSummary | None:
    """Summarize one of several indexes; an unreadable one is reported, a dropped one skipped."""
    try:
        return store.summary(name)
    except UnknownIndex:
        return None
    except IndexUnusable as error:
        return IndexSummary.unusable(name, store.version(name) or "", error.message)


def _drop(store: IndexStore, name: str) -> None:
    """Delete an index, or the leftovers of one that was never published. Raises `UnknownIndex`."""
    if store.version(name) is None and (store.root / name).is_dir():
        with store.writing(name, LOCK_SECONDS) as writing:
            writing.discard()
        return
    store.drop(name, LOCK_SECONDS)


_MESSAGE: TypeAdapter[IndexMessage] = TypeAdapter(IndexMessage)


def main(folder: Path) -> None:
    """Execute the message in ``folder``; the outcome goes to its result.json."""
    # Exit through finally blocks, so that our encoder process is stopped too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    reporter = Reporter(folder)
    request = _MESSAGE.validate_json((folder / MESSAGE_FILE).read_bytes())
    try:
        outcome = execute(request, folder, reporter)
    except InvalidCorpus as error:
        error.announce(reporter)
        reporter.fail(error.code, error.message, error.param)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param, retryable=error.retryable)
    else:
        reporter.finish(**outcome.model_dump(mode="json"))


if __name__ == "__main__":
    for parent in sys.argv[2:]:
        die_with_parent(int(parent))
    main(Path(sys.argv[1]))
