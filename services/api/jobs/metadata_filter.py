"""Listing jobs by their metadata: ``metadata[key]=value``, or ``metadata=key=value``."""

from typing import Annotated

from fastapi import Depends, Query, Request

from services.contracts.base import MAX_METADATA_PAIRS
from services.contracts.errors import InvalidRequest

_OPEN, _CLOSE = "metadata[", "]"


async def _metadata_filter(
    request: Request,
    metadata: Annotated[
        list[str] | None,
        Query(
            description="Label that the jobs must have, as key=value; repeatable.", max_length=16
        ),
    ] = None,
) -> dict[str, str]:
    """Parse both syntaxes; OpenAI's clients use the first."""
    pairs = [pair.partition("=") for pair in metadata or []]
    for name, value in request.query_params.multi_items():
        if name.startswith(_OPEN) and name.endswith(_CLOSE):
            pairs.append((name[len(_OPEN) : -len(_CLOSE)], "=", value))
    if len(pairs) > MAX_METADATA_PAIRS:
        raise InvalidRequest("too many pairs", param="metadata")
    for key, equals, _ in pairs:
        if not key or not equals:
            raise InvalidRequest(f"{key[:80]!r} is not key=value", param="metadata")
        if '"' in key:  # not allowed in a JSON path of SQLite
            message = "jobs cannot be listed by a key with a quote"
            raise InvalidRequest(message, param="metadata")
    return {key: value for key, _, value in pairs}


MetadataFilter = Annotated[dict[str, str], Depends(_metadata_filter)]
