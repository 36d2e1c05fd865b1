"""The documents of an index: read, added, replaced and deleted."""

from typing import Annotated

from fastapi import APIRouter, Path

from services.contracts.base import JsonObject
from services.contracts.documents import DeleteDocuments, DocumentsChanged, PutDocuments
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    StorageFull,
    Unavailable,
)
from services.contracts.pages import DEFAULT_LIMIT, Page
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit
from services.core.web.principal import ToolPrincipal
from services.retrieval.context import Retrieval
from services.retrieval.indexes.documents import (
    delete_documents,
    document_page,
    one_document,
    put_documents,
)
from services.retrieval.indexes.routes import Name

router = APIRouter(
    tags=["documents"],
    prefix="/v1/indexes/{name}/documents",
    responses=documented_errors(
        *(AuthenticationFailed, InvalidRequest, NotFound, Conflict, Unavailable, StorageFull),
    ),
)

Id = Annotated[str, Path(min_length=1, max_length=512, description="The id of a document.")]


@router.get("", summary="List documents")
async def list_documents(
    name: Name,
    retrieval: Retrieval,
    _principal: ToolPrincipal,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[JsonObject]:
    """The documents of an index in the order in which they were added."""
    return await document_page(retrieval.engine, name, after, limit)


@router.post("", summary="Add or replace documents")
async def put_many(
    name: Name, asked: PutDocuments, retrieval: Retrieval, _principal: ToolPrincipal
) -> DocumentsChanged:
    """Add documents; those whose ids are there already are replaced.

    All of them are kept when this is answered, whatever happens afterwards, or none.
    """
    put = await put_documents(retrieval.engine, name, asked.documents)
    return DocumentsChanged(index=name, put=put)


@router.post("/delete", summary="Delete documents")
async def delete_many(
    name: Name, asked: DeleteDocuments, retrieval: Retrieval, _principal: ToolPrincipal
) -> DocumentsChanged:
    """Delete the documents with these ids; those that are not there are passed over."""
    deleted = await delete_documents(retrieval.engine, name, asked.ids)
    return DocumentsChanged(index=name, deleted=deleted)


@router.get("/{document_id:path}", summary="Show a document")
async def show_document(
    name: Name, document_id: Id, retrieval: Retrieval, _principal: ToolPrincipal
) -> JsonObject:
    """One document as searches give it."""
    return await one_document(retrieval.engine, name, document_id)


@router.put("/{document_id:path}", summary="Add or replace a document")
async def put_one(
    name: Name,
    document_id: Id,
    document: JsonObject,
    retrieval: Retrieval,
    _principal: ToolPrincipal,
) -> DocumentsChanged:
    """Put a document under an id, which it need not repeat."""
    if document.setdefault("id", document_id) != document_id:
        raise InvalidRequest(f"is {document['id']!r:.100}, not that of the path", param="id")
    put = await put_documents(retrieval.engine, name, [document])
    return DocumentsChanged(index=name, put=put)


@router.delete("/{document_id:path}", summary="Delete a document")
async def delete_one(
    name: Name, document_id: Id, retrieval: Retrieval, _principal: ToolPrincipal
) -> DocumentsChanged:
    """Delete one document; 404 when it is not there."""
    deleted = await delete_documents(retrieval.engine, name, [document_id])
    if not deleted:
        raise NotFound(f"index {name!r} has no document {document_id!r:.200}")
    return DocumentsChanged(index=name, deleted=deleted)
