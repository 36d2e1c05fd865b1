"""Limits on the queries of a request."""

from collections.abc import Sequence

from services.contracts.errors import Unprocessable
from services.retrieval.settings import RetrievalSettings


def check_count(queries: Sequence[str], settings: RetrievalSettings, param: str) -> None:
    """Raise `Unprocessable` when a request brings more queries than the settings allow."""
    most = settings.retrieval_request_queries
    if len(queries) > most:
        raise Unprocessable(
            f"{len(queries)} queries in a request; TEMPER_RETRIEVAL_REQUEST_QUERIES allows {most}",
            param=param,
        )
