"""/v1/indexes/{name}/documents: list, get, put and delete documents."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path

from services.contracts.base import DEFAULT_LIMIT, JsonObject, Page
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    StorageFull,
    Unavailable,
)
from services.contracts.retrieval.indexes import DeleteDocuments, DocumentsChanged, PutDocuments
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit
from services.datasets.record import RowError, StrictDecoder
from services.retrieval.context import Retrieval
from services.retrieval.corpus.document import Document, parse_row
from services.retrieval.encoder.specification import TextKind
from services.retrieval.engine.engine import SearchEngine
from services.retrieval.engine.served import deadline_in
from services.retrieval.routes.indexes import Name
from services.retrieval.store.changes import Changes

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
    """The documents of an index in insertion order."""
    return await document_page(retrieval.engine, name, after, limit)


@router.post("", summary="Add or replace documents")
async def put_many(
    name: Name, body: PutDocuments, retrieval: Retrieval, _principal: ToolPrincipal
) -> DocumentsChanged:
    """Add documents, replacing those with the same ids.

    Durable when answered: all of them or none.
    """
    put = await put_documents(retrieval.engine, name, body.documents)
    return DocumentsChanged(index=name, put=put)


@router.post("/delete", summary="Delete documents")
async def delete_many(
    name: Name, body: DeleteDocuments, retrieval: Retrieval, _principal: ToolPrincipal
) -> DocumentsChanged:
    """Delete documents by id; unknown ids are ignored."""
    deleted = await delete_documents(retrieval.engine, name, body.ids)
    return DocumentsChanged(index=name, deleted=deleted)


@router.get("/{document_id:path}", summary="Show a document")
async def show_document(
    name: Name, document_id: Id, retrieval: Retrieval, _principal: ToolPrincipal
) -> JsonObject:
    """One document, as searches return it."""
    return await one_document(retrieval.engine, name, document_id)


@router.put("/{document_id:path}", summary="Add or replace a document")
async def put_one(
    name: Name,
    document_id: Id,
    document: JsonObject,
    retrieval: Retrieval,
    _principal: ToolPrincipal,
) -> DocumentsChanged:
    """Put a document under an id, which the body may omit."""
    if document.setdefault("id", document_id) != document_id:
        raise InvalidRequest(f"is {document['id']!r:.100}, but the path has another id", param="id")
    put = await put_documents(retrieval.engine, name, [document])
    return DocumentsChanged(index=name, put=put)


@router.delete("/{document_id:path}", summary="Delete a document")
async def delete_one(
    name: Name, document_id: Id, retrieval: Retrieval, _principal: ToolPrincipal
) -> DocumentsChanged:
    """Delete one document; 404 when it does not exist."""
    deleted = await delete_documents(retrieval.engine, name, [document_id])
    if not deleted:
        raise NotFound(f"index {name!r} has no document {document_id!r:.200}")
    return DocumentsChanged(index=name, deleted=deleted)


ENCODING_SECONDS = 300.0


async def put_documents(engine: SearchEngine, name: str, rows: Sequence[JsonObject]) -> int:
    """Add or replace documents; returns their number. Raises `InvalidRequest` naming row and
    field."""
    documents = await asyncio.to_thread(_documents, rows)
    served = await engine.catalog.get(name)
    with served.used():
        vectors = None
        if served.index.manifest.dense is not None:
            texts = [document.contents for document in documents]
            deadline = deadline_in(ENCODING_SECONDS)
            vectors = await served.vectors(texts, TextKind.PASSAGE, deadline)
        return await asyncio.to_thread(Changes(served.index).put, documents, vectors)


async def delete_documents(engine: SearchEngine, name: str, ids: Sequence[str]) -> int:
    """Delete documents; returns how many existed."""
    served = await engine.catalog.get(name)
    with served.used():
        return await asyncio.to_thread(Changes(served.index).delete, ids)


async def document_page(
    engine: SearchEngine, name: str, after: str | None, limit: int
) -> Page[JsonObject]:
    """Documents in insertion order, those ``after`` an id."""
    served = await engine.catalog.get(name)
    with served.used():
        found = await asyncio.to_thread(served.index.documents, after, limit + 1)
    documents = [json.loads(document) for document in found[:limit]]
    return Page(
        data=documents,
        has_more=len(found) > limit,
        first_id=documents[0]["id"] if documents else None,
        last_id=documents[-1]["id"] if documents else None,
    )


async def one_document(engine: SearchEngine, name: str, document_id: str) -> JsonObject:
    """A document by its id; raises `NotFound`."""
    served = await engine.catalog.get(name)
    with served.used():
        found = await asyncio.to_thread(served.index.document, document_id)
    if found is None:
        raise NotFound(f"index {name!r} has no document {document_id!r:.200}")
    document: JsonObject = json.loads(found)
    return document


def _documents(rows: Sequence[JsonObject]) -> list[Document]:
    return [_document(row, f"documents[{place}]") for place, row in enumerate(rows)]


def _document(row: JsonObject, place: str) -> Document:
    """Parse a row as strictly as rows of files."""
    try:
        return parse_row(StrictDecoder().decode(json.dumps(row)))
    except RowError as error:
        raise InvalidRequest(f"{place}: {error.message}", param=place) from None
    except RecursionError:
        raise InvalidRequest(f"{place} is nested too deeply", param=place) from None
