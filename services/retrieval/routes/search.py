"""POST /v1/search. Answers are assembled from stored JSON."""

import json
from collections.abc import Sequence
from functools import partial

from fastapi import Request, Response
from fastapi.openapi.models import Example

from services.contracts.retrieval.search import SearchRequest, SearchResponse
from services.core.web.auth import ToolPrincipal
from services.core.web.disconnect import answer_to
from services.core.web.json_body import documented_body, read_body
from services.retrieval.context import Retrieval, RetrievalContext
from services.retrieval.engine.engine import Search, SearchResults
from services.retrieval.routes.queries import checked_queries, notes_field, search_router
from services.retrieval.store.highlights import highlight
from services.retrieval.store.query import Hit
from services.retrieval.store.tokens import Analyzer

SEARCHES: dict[str, Example] = {
    "words": {
        "summary": "One query, with matches highlighted",
        "value": {"query": "sort a list in place", "topk": 5, "highlights": True},
    },
    "filtered": {
        "summary": "Two queries of one index, filtered by metadata",
        "value": {
            "query": ["open a file", "close a socket"],
            "index": "python",
            "mode": "bm25",
            "filter": {"equals": {"module": "os"}},
        },
    },
}

router = search_router("search")


@router.post(
    "/v1/search",
    summary="Search an index",
    openapi_extra=documented_body(SearchRequest, SEARCHES),
    responses={200: {"model": SearchResponse}},
)
async def search(request: Request, retrieval: Retrieval, _principal: ToolPrincipal) -> Response:
    """Search one index by words, vectors or both, with one query or many."""
    body = await read_body(request, SearchRequest)
    return await answer_to(request, _search(retrieval, body))


async def _search(retrieval: RetrievalContext, body: SearchRequest) -> bytes:
    settings = retrieval.settings
    given = [body.query] if isinstance(body.query, str) else body.query
    queries, notes = checked_queries(given, settings, "query")
    search = Search(
        queries,
        body.topk or settings.retrieval_topk,
        body.mode,
        body.filter,
        body.rerank,
        body.highlights,
    )
    seconds = body.timeout or settings.retrieval_seconds
    write = partial(search_answer, search=search, notes=notes)
    return await retrieval.engine.answer(body.index, search, seconds, write)


def search_answer(found: SearchResults, search: Search, notes: Sequence[str]) -> bytes:
    """Serialize a `SearchResponse`."""
    index = found.served.index
    analyzer = index.analyzer if search.highlights else None
    results = [
        b"[%b]" % b",".join([_hit(hit, query, analyzer) for hit in hits])
        for query, hits in zip(search.queries, found.hits, strict=True)
    ]
    head = json.dumps({"index": index.name, "mode": found.mode.value}).encode()
    lists = b",".join(results)
    return b'%b,"results":[%b]%b}' % (head[:-1], lists, notes_field(notes))


def _hit(hit: Hit, query: str, analyzer: Analyzer | None) -> bytes:
    parts = [b'{"document":%b,"score":%r' % (hit.document, hit.score)]
    if hit.parts:
        ranks = [
            {"mode": part.mode.value, "rank": part.rank, "score": part.score} for part in hit.parts
        ]
        parts.append(b'"parts":%b' % json.dumps(ranks).encode())
    if analyzer is not None:
        text = json.loads(hit.document)["contents"]
        extracts = highlight(analyzer, query, text)
        parts.append(b'"highlights":%b' % json.dumps(extracts, ensure_ascii=False).encode())
    return b",".join(parts) + b"}"
