"""What the routes of documents do."""

import asyncio
import json
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.pages import Page
from services.datasets.decoding import StrictDecoder
from services.datasets.record import RowError
from services.retrieval.corpus.document import Document
from services.retrieval.corpus.rows import parse_row
from services.retrieval.encoder.specification import TextKind
from services.retrieval.index.changes import Changes
from services.retrieval.searching.engine import Engine
from services.retrieval.searching.served import deadline_in

ENCODING_SECONDS = 300.0


async def put_documents(engine: Engine, name: str, rows: Sequence[JsonObject]) -> int:
    """Add or replace documents; their number. Raises `InvalidRequest` naming row and field."""
    documents = await asyncio.to_thread(_documents, rows)
    served = await engine.catalogue.get(name)
    with served.used():
        vectors = None
        if served.index.manifest.dense is not None:
            texts = [document.contents for document in documents]
            deadline = deadline_in(ENCODING_SECONDS)
            vectors = await served.vectors(texts, TextKind.PASSAGE, deadline)
        return await asyncio.to_thread(Changes(served.index).put, documents, vectors)


async def delete_documents(engine: Engine, name: str, ids: Sequence[str]) -> int:
    """Delete documents; the number of those that were there."""
    served = await engine.catalogue.get(name)
    with served.used():
        return await asyncio.to_thread(Changes(served.index).delete, ids)


async def document_page(
    engine: Engine, name: str, after: str | None, limit: int
) -> Page[JsonObject]:
    """Documents in the order in which they were added, those ``after`` an id."""
    served = await engine.catalogue.get(name)
    with served.used():
        found = await asyncio.to_thread(served.index.documents, after, limit + 1)
    documents = [json.loads(document) for document in found[:limit]]
    return Page(
        data=documents,
        has_more=len(found) > limit,
        first_id=documents[0]["id"] if documents else None,
        last_id=documents[-1]["id"] if documents else None,
    )


async def one_document(engine: Engine, name: str, document_id: str) -> JsonObject:
    """A document by its id; raises `NotFound`."""
    served = await engine.catalogue.get(name)
    with served.used():
        found = await asyncio.to_thread(served.index.document, document_id)
    if found is None:
        raise NotFound(f"index {name!r} has no document {document_id!r:.200}")
    document: JsonObject = json.loads(found)
    return document


def _documents(rows: Sequence[JsonObject]) -> list[Document]:
    return [_document(row, f"documents[{place}]") for place, row in enumerate(rows)]


def _document(row: JsonObject, place: str) -> Document:
    """The document of a row that is checked as strictly as those of files."""
    try:
        return parse_row(StrictDecoder().decode(json.dumps(row)))
    except RowError as error:
        raise InvalidRequest(f"{place}: {error.message}", param=place) from None
    except RecursionError:
        raise InvalidRequest(f"{place} is nested too deep", param=place) from None
