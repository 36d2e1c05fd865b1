"""/v1/indexes: which there are, and dropping one."""

from typing import Annotated

from fastapi import APIRouter, Path

from services.contracts.base import Deleted
from services.contracts.errors import AuthenticationFailed, Conflict, NotFound, Unavailable
from services.contracts.indexes import IndexSummary
from services.contracts.retrieval import CacheSummary, IndexList
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
    """Every index that can be searched, and what the cache has come to."""
    engine = retrieval.engine
    figures = engine.cache.figures
    cache = CacheSummary(
        hits=figures.hits,
        misses=figures.misses,
        entries=figures.entries,
        bytes=figures.held_bytes,
    )
    summaries = await engine.catalogue.summaries()
    names = [summary.name for summary in summaries]
    return IndexList(
        data=summaries,
        first_id=names[0] if names else None,
        last_id=names[-1] if names else None,
        cache=cache,
    )


@router.get("/{name}", summary="Show an index")
async def show_index(name: Name, retrieval: Retrieval, _principal: ToolPrincipal) -> IndexSummary:
    """What the index is, and what is wrong with it if anything is."""
    return await retrieval.engine.catalogue.summary(name)


@router.delete("/{name}", summary="Drop an index")
async def drop_index(name: Name, retrieval: Retrieval, _principal: ToolPrincipal) -> Deleted:
    """Delete an index with all its documents; 409 while it is built or changed."""
    await retrieval.engine.catalogue.drop(name)
    return Deleted(id=name, object="index")
