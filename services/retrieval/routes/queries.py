"""Shared by both search routes: the router, and limits on the queries of a request."""

import json
from collections.abc import Sequence

from fastapi import APIRouter, Response

from services.contracts.errors import (
    AuthenticationFailed,
    GatewayTimeout,
    NotFound,
    PayloadTooLarge,
    Unprocessable,
)
from services.contracts.retrieval.search import MAX_QUERY_CHARACTERS
from services.core.web.auth import DirectToolRoute
from services.core.web.errors import documented_errors
from services.retrieval.engine.admission import Overloaded
from services.retrieval.settings import RetrievalSettings

MAX_NOTES = 16


def search_router(tag: str) -> APIRouter:
    """A router of routes that search and write their responses themselves."""
    return APIRouter(
        tags=[tag],
        responses=documented_errors(
            *(AuthenticationFailed, NotFound, PayloadTooLarge, Unprocessable),
            *(Overloaded, GatewayTimeout),
        ),
        default_response_class=Response,
        route_class=DirectToolRoute,
    )


def checked_queries(
    queries: Sequence[str], settings: RetrievalSettings, param: str
) -> tuple[Sequence[str], list[str]]:
    """Queries truncated to `MAX_QUERY_CHARACTERS`, with notes that say which were truncated.

    Raises `Unprocessable` when a request has more queries than the settings allow.
    """
    most = settings.retrieval_request_queries
    if len(queries) > most:
        raise Unprocessable(
            f"{len(queries)} queries in a request; TEMPER_RETRIEVAL_REQUEST_QUERIES allows {most}",
            param=param,
        )
    cut = [n for n, query in enumerate(queries) if len(query) > MAX_QUERY_CHARACTERS]
    notes = [
        f"query {n} has {len(queries[n])} characters; the first {MAX_QUERY_CHARACTERS} were used"
        for n in cut[:MAX_NOTES]
    ]
    if len(cut) > MAX_NOTES:
        notes.append(f"{len(cut) - MAX_NOTES} more queries were cut")
    return [query[:MAX_QUERY_CHARACTERS] for query in queries], notes


def notes_field(notes: Sequence[str]) -> bytes:
    """The notes as the last field of a JSON object; nothing without any."""
    return b',"notes":%b' % json.dumps(notes).encode() if notes else b""
