"""The process that works on indexes: ``python -m services.retrieval.builder <folder>``.

It reads ``order.json`` in the core environment and ends with a result, or fails with its cause.
It may be killed at any time and started again on the same folder: a build goes on where it was.
Given the number of its parent's process as well, it ends with that.
"""

import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from services.contracts.errors import TemperError
from services.contracts.index_messages import (
    ORDER,
    BuildIndex,
    DeleteDocuments,
    DropIndex,
    IndexDropped,
    Indexes,
    ListIndexes,
    Order,
    PutDocuments,
)
from services.contracts.indexes import IndexSummary
from services.core.process.reporter import Reporter
from services.retrieval.builder.build import Surroundings, build_index
from services.retrieval.builder.changes import delete_documents, put_documents
from services.retrieval.builder.encoding import PassageEncoder, running_encoder
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.validation import InvalidCorpus
from services.retrieval.encoder.specification import EncoderSpecification
from services.retrieval.index_settings import IndexSettings
from services.retrieval.parent import die_with_parent
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.store import IndexStore

ENCODER_LOG = "encoder.log"
LOCK_SECONDS = 30.0


def carry_out(order: Order, folder: Path, reporter: Reporter) -> BaseModel:
    """Do what an order says; ``folder`` is that of the order. Raises `TemperError`."""
    settings = IndexSettings()
    store = IndexStore(settings.indexes_folder)

    def start_encoder(wanted: EncoderSpecification) -> AbstractContextManager[PassageEncoder]:
        return running_encoder(wanted, settings.runtimes_folder, folder / ENCODER_LOG)

    around = Surroundings(store, start_encoder)
    progress = BuildProgress(reporter)
    match order:
        case BuildIndex():
            return build_index(order, around, progress)
        case PutDocuments():
            return put_documents(order, around, progress)
        case DeleteDocuments():
            return delete_documents(order, around)
        case DropIndex():
            _drop(store, order.index)
            return IndexDropped(index=order.index)
        case ListIndexes():
            if order.index is not None:
                return Indexes(indexes=[store.summary(order.index)])
            return Indexes(indexes=[_summary(store, name) for name in store.names()])


def _summary(store: IndexStore, name: str) -> IndexSummary:
    """One index of many: that it cannot be read must not hide the others."""
    try:
        return store.summary(name)
    except IndexUnusable as error:
        return IndexSummary.unusable(name, store.version(name) or "", error.message)


def _drop(store: IndexStore, name: str) -> None:
    """Delete an index, or what was built of one that never came to be; raises `UnknownIndex`."""
    if store.version(name) is None and (store.root / name).is_dir():
        with store.writing(name, LOCK_SECONDS) as writing:
            writing.discard()
        return
    store.drop(name, LOCK_SECONDS)


_ORDER: TypeAdapter[Order] = TypeAdapter(Order)


def main(folder: Path) -> None:
    """Carry out the order in a folder; the outcome is in its result.json."""
    # Ends in order: an encoder of ours ends, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    reporter = Reporter(folder)
    order = _ORDER.validate_json((folder / ORDER).read_bytes())
    try:
        outcome = carry_out(order, folder, reporter)
    except InvalidCorpus as error:
        error.announce(reporter)
        reporter.fail(error.code, error.message, error.param)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)
    else:
        reporter.finish(**outcome.model_dump(mode="json"))


if __name__ == "__main__":
    for parent in sys.argv[2:]:
        die_with_parent(int(parent))
    main(Path(sys.argv[1]))
