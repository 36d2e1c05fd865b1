"""Changing the passages of an index from a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from services.contracts.index_messages import DeleteDocuments, DocumentsChanged, PutDocuments
from services.retrieval.builder.build import Surroundings
from services.retrieval.builder.encoding import PassageEncoder, Vectors
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.corpus import open_corpus
from services.retrieval.corpus.document import Document
from services.retrieval.corpus.validation import CheckedCorpus
from services.retrieval.encoder.specification import EncoderDescription
from services.retrieval.store.changes import Changes
from services.retrieval.store.index import Index

PUT_AT_ONCE = 1000


def put_documents(
    order: PutDocuments, around: Surroundings, progress: BuildProgress
) -> DocumentsChanged:
    """Add the passages of a corpus, or replace those of the same ids.

    The corpus is read to its end first: one that has anything wrong changes nothing. Killed
    later, it has changed as many as were reported; the same order can be given again. Raises
    `InvalidCorpus`, `UnknownIndex`, `IndexBusy`, `IndexFull`, `StorageFull` and what goes wrong
    with an encoder.
    """
    checked = CheckedCorpus(open_corpus(order.corpus, ids_required=True), order.corpus_name)
    total = sum(1 for _ in checked)
    checked.raise_problems()
    index = around.store.open(order.index).index
    with _encoder_of(index, around) as encoder:
        changes, changed = Changes(index), 0
        progress.begin("adding")
        documents = (passage.document for passage in checked)
        while batch := list(islice(documents, PUT_AT_ONCE)):
            changed += changes.put(batch, _vectors(batch, encoder))
            progress.tell(changed, total)
    return DocumentsChanged(index=order.index, changed=changed, documents=index.count)


def delete_documents(order: DeleteDocuments, around: Surroundings) -> DocumentsChanged:
    """Delete the passages with these ids; ids that the index does not have are passed over."""
    index = around.store.open(order.index).index
    changed = Changes(index).delete(order.ids)
    return DocumentsChanged(index=order.index, changed=changed, documents=index.count)


@contextmanager
def _encoder_of(index: Index, around: Surroundings) -> Iterator[PassageEncoder | None]:
    """The encoder that made the vectors of an index; None for an index without.

    Raises `EncoderMismatch` when the same model now makes other vectors.
    """
    dense = index.manifest.dense
    if dense is None or dense.encoder is None:
        yield None
        return
    made_by = EncoderDescription.model_validate(dense.encoder)
    with around.start_encoder(made_by.specification()) as encoder:
        encoder.description.checked_against(made_by)
        yield encoder


def _vectors(batch: Sequence[Document], encoder: PassageEncoder | None) -> Vectors | None:
    return None if encoder is None else encoder.encode([each.contents for each in batch])
