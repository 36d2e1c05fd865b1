"""/v1/indexes: list, show and drop indexes."""

from typing import Annotated

from fastapi import APIRouter, Path

from services.contracts.base import Deleted
from services.contracts.errors import AuthenticationFailed, Conflict, NotFound, Unavailable
from services.contracts.retrieval.indexes import IndexSummary
from services.contracts.retrieval.search import CacheSummary, IndexList
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.retrieval.context import Retrieval

router = APIRouter(
    tags=["indexes"],
    prefix="/v1/indexes",
    responses=documented_errors(AuthenticationFailed, NotFound, Conflict, Unavailable),
)

Name = Annotated[str, Path(max_length=255, description="The name of an index.")]


@router.get("", summary="List indexes")
async def list_indexes(retrieval: Retrieval, _principal: ToolPrincipal) -> IndexList:
    """All indexes, and the cache's counters."""
    engine = retrieval.engine
    stats = engine.cache.stats
    cache = CacheSummary(
        hits=stats.hits,
        misses=stats.misses,
        entries=stats.entries,
        bytes=stats.held_bytes,
    )
    summaries = await engine.catalog.summaries()
    names = [summary.name for summary in summaries]
    return IndexList(
        data=summaries,
        first_id=names[0] if names else None,
        last_id=names[-1] if names else None,
        cache=cache,
    )


@router.get("/{name}", summary="Show an index")
async def show_index(name: Name, retrieval: Retrieval, _principal: ToolPrincipal) -> IndexSummary:
    """One index, with its problem if it has one."""
    return await retrieval.engine.catalog.summary(name)


@router.delete("/{name}", summary="Drop an index")
async def drop_index(name: Name, retrieval: Retrieval, _principal: ToolPrincipal) -> Deleted:
    """Delete an index with all its documents; 409 while it is built or changed."""
    await retrieval.engine.catalog.drop(name)
    return Deleted(id=name, object="index")
