"""Searches an index without the service."""

import json

from services.contracts.retrieval.index_messages import PassagesFound, SearchIndex
from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import HitPart, SearchHit
from services.retrieval.builder.build import BuildContext
from services.retrieval.builder.changes import encoder_of
from services.retrieval.encoder.specification import TextKind
from services.retrieval.store.query import Hit, Query


def search_index(request: SearchIndex, context: BuildContext) -> PassagesFound:
    """The best passages of one query. Raises `UnknownIndex`, `IndexUnusable` and encoder errors."""
    index = context.store.open(request.index).index
    try:
        mode = request.mode or index.manifest.mode
        vector = None
        if mode is not IndexMode.BM25:
            with encoder_of(index, context) as encoder:
                if encoder is not None:
                    (vector,) = encoder.encode([request.query], TextKind.QUERY)
        (hits,) = index.search([Query(request.query, mode, request.topk, vector)])
        return PassagesFound(index=request.index, mode=mode, hits=[_hit(hit) for hit in hits])
    finally:
        index.close()


def _hit(hit: Hit) -> SearchHit:
    parts = [HitPart(mode=part.mode, rank=part.rank, score=part.score) for part in hit.parts]
    return SearchHit(document=json.loads(hit.document), score=hit.score, parts=parts or None)
