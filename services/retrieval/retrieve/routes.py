"""POST /retrieve."""

from fastapi import APIRouter, Request, Response

from services.contracts.errors import (
    AuthenticationFailed,
    GatewayTimeout,
    NotFound,
    PayloadTooLarge,
    Unprocessable,
)
from services.contracts.retrieval import RetrieveRequest, RetrieveResponse
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.core.web.principal import DirectToolRoute, ToolPrincipal
from services.retrieval.answers import answer_to
from services.retrieval.context import Retrieval, RetrievalContext
from services.retrieval.retrieve.answer import plain_answer, scored_answer
from services.retrieval.retrieve.examples import QUERIES
from services.retrieval.searching.admission import Overloaded
from services.retrieval.searching.engine import Search

router = APIRouter(
    tags=["retrieve"],
    responses=documented_errors(
        AuthenticationFailed,
        NotFound,
        PayloadTooLarge,
        Unprocessable,
        Overloaded,
        GatewayTimeout,
    ),
    default_response_class=Response,
    route_class=DirectToolRoute,
)


@router.post(
    "/retrieve",
    summary="Search passages",
    openapi_extra=documented_body(RetrieveRequest, QUERIES),
    responses={200: {"model": RetrieveResponse}},
)
async def retrieve(request: Request, retrieval: Retrieval, _principal: ToolPrincipal) -> Response:
    """Search the index for each query; fewer hits than topk give a shorter list."""
    asked = await read_body(request, RetrieveRequest)
    return await answer_to(request, _retrieved(retrieval, asked))


async def _retrieved(retrieval: RetrievalContext, asked: RetrieveRequest) -> bytes:
    settings = retrieval.settings
    search = Search(asked.queries, asked.topk or settings.retrieval_topk)
    write = scored_answer if asked.return_scores else plain_answer
    return await retrieval.engine.answer(asked.index, search, settings.retrieval_seconds, write)
