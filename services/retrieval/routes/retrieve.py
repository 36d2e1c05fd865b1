"""POST /retrieve, compatible with Search-R1. Answers are assembled from stored JSON."""

from collections.abc import Sequence
from functools import partial

from fastapi import Request, Response
from fastapi.openapi.models import Example

from services.contracts.retrieval.search import RetrieveRequest, RetrieveResponse
from services.core.web.auth import ToolPrincipal
from services.core.web.disconnect import answer_to
from services.core.web.json_body import documented_body, read_body
from services.retrieval.context import Retrieval, RetrievalContext
from services.retrieval.engine.engine import Search, SearchResults
from services.retrieval.routes.queries import checked_queries, notes_field, search_router

QUERIES: dict[str, Example] = {
    "queries": {
        "summary": "Two questions, with scores",
        "value": {
            "queries": ["how is a list sorted", "what closes a file"],
            "topk": 3,
            "return_scores": True,
        },
    },
}

router = search_router("retrieve")


@router.post(
    "/retrieve",
    summary="Search passages",
    openapi_extra=documented_body(RetrieveRequest, QUERIES),
    responses={200: {"model": RetrieveResponse}},
)
async def retrieve(request: Request, retrieval: Retrieval, _principal: ToolPrincipal) -> Response:
    """Search the index for each query. Lists are shorter than topk when there are fewer hits."""
    body = await read_body(request, RetrieveRequest)
    return await answer_to(request, _retrieve(retrieval, body))


async def _retrieve(retrieval: RetrievalContext, body: RetrieveRequest) -> bytes:
    settings = retrieval.settings
    queries, notes = checked_queries(body.queries, settings, "queries")
    search = Search(queries, body.topk or settings.retrieval_topk)
    write = partial(scored_answer if body.return_scores else plain_answer, notes=notes)
    return await retrieval.engine.answer(body.index, search, settings.retrieval_seconds, write)


def plain_answer(found: SearchResults, notes: Sequence[str] = ()) -> bytes:
    """The passages of each query."""
    return _answer([[hit.document for hit in hits] for hits in found.hits], notes)


def scored_answer(found: SearchResults, notes: Sequence[str] = ()) -> bytes:
    """The passages of each query, each with its score."""
    return _answer(
        [
            [b'{"document":%b,"score":%r}' % (hit.document, hit.score) for hit in hits]
            for hits in found.hits
        ],
        notes,
    )


def _answer(results: Sequence[Sequence[bytes]], notes: Sequence[str]) -> bytes:
    lists = b",".join([b"[%b]" % b",".join(hits) for hits in results])
    return b'{"result":[%b]%b}' % (lists, notes_field(notes))
