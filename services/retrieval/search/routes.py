"""POST /v1/search."""

from functools import partial

from fastapi import APIRouter, Request, Response

from services.contracts.errors import (
    AuthenticationFailed,
    GatewayTimeout,
    NotFound,
    PayloadTooLarge,
    Unprocessable,
)
from services.contracts.retrieval import SearchRequest, SearchResponse
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.core.web.principal import DirectToolRoute, ToolPrincipal
from services.retrieval.answers import answer_to
from services.retrieval.context import Retrieval, RetrievalContext
from services.retrieval.search.answer import search_answer
from services.retrieval.search.examples import SEARCHES
from services.retrieval.searching.admission import Overloaded
from services.retrieval.searching.engine import Search

router = APIRouter(
    tags=["search"],
    responses=documented_errors(
        *(AuthenticationFailed, NotFound, PayloadTooLarge, Unprocessable),
        *(Overloaded, GatewayTimeout),
    ),
    default_response_class=Response,
    route_class=DirectToolRoute,
)


@router.post(
    "/v1/search",
    summary="Search an index",
    openapi_extra=documented_body(SearchRequest, SEARCHES),
    responses={200: {"model": SearchResponse}},
)
async def search(request: Request, retrieval: Retrieval, _principal: ToolPrincipal) -> Response:
    """Search one index by words, by meaning or by both, for one query or for many."""
    asked = await read_body(request, SearchRequest)
    return await answer_to(request, _searched(retrieval, asked))


async def _searched(retrieval: RetrievalContext, asked: SearchRequest) -> bytes:
    settings = retrieval.settings
    queries = [asked.query] if isinstance(asked.query, str) else asked.query
    search = Search(
        queries,
        asked.topk or settings.retrieval_topk,
        asked.mode,
        asked.filter,
        asked.rerank,
        asked.highlights,
    )
    seconds = asked.timeout or settings.retrieval_seconds
    write = partial(search_answer, search=search)
    return await retrieval.engine.answer(asked.index, search, seconds, write)
