"""Bulk changes of an index's passages from a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from services.contracts.retrieval.index_messages import DeletePassages, PassagesChanged, PutCorpus
from services.retrieval.builder.build import BuildContext
from services.retrieval.builder.encoding import PassageEncoder, Vectors
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.corpus import open_corpus
from services.retrieval.corpus.document import Document
from services.retrieval.corpus.validation import CheckedCorpus
from services.retrieval.encoder.specification import EncoderDescription
from services.retrieval.store.changes import Changes
from services.retrieval.store.index import Index

PUT_CHUNK = 1000


def put_documents(
    request: PutCorpus, context: BuildContext, progress: BuildProgress
) -> PassagesChanged:
    """Add the passages of a corpus, replacing those with the same ids.

    The whole corpus is validated first: an invalid one changes nothing. If the process is killed
    later, the reported number of passages is stored; rerunning is safe. Raises `InvalidCorpus`,
    `UnknownIndex`, `IndexBusy`, `IndexFull`, `StorageFull` and encoder errors.
    """
    checked = CheckedCorpus(open_corpus(request.corpus, ids_required=True), request.corpus_name)
    total = sum(1 for _ in checked)
    checked.raise_problems()
    index = context.store.open(request.index).index
    with encoder_of(index, context) as encoder:
        changes, changed = Changes(index), 0
        progress.begin("adding")
        documents = (passage.document for passage in checked)
        while batch := list(islice(documents, PUT_CHUNK)):
            changed += changes.put(batch, _vectors(batch, encoder))
            progress.report(changed, total)
    return PassagesChanged(index=request.index, changed=changed, documents=index.count)


def delete_documents(request: DeletePassages, context: BuildContext) -> PassagesChanged:
    """Delete passages by id; unknown ids are ignored."""
    index = context.store.open(request.index).index
    changed = Changes(index).delete(request.ids)
    return PassagesChanged(index=request.index, changed=changed, documents=index.count)


@contextmanager
def encoder_of(index: Index, context: BuildContext) -> Iterator[PassageEncoder | None]:
    """Run the encoder that made the index's vectors; None for an index without vectors.

    Raises `EncoderMismatch` when the same model now produces different vectors.
    """
    dense = index.manifest.dense
    if dense is None or dense.encoder is None:
        yield None
        return
    made_by = EncoderDescription.model_validate(dense.encoder)
    with context.start_encoder(made_by.specification()) as encoder:
        encoder.description.require_same_vectors(made_by)
        yield encoder


def _vectors(batch: Sequence[Document], encoder: PassageEncoder | None) -> Vectors | None:
    return None if encoder is None else encoder.encode([each.contents for each in batch])
