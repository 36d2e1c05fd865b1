"""The documents of an index: added, replaced and deleted while it is searched."""

from typing import Annotated

from pydantic import Field

from services.contracts.base import JsonObject, Request, Resource

MAX_DOCUMENTS = 1000

DocumentId = Annotated[str, Field(min_length=1, max_length=512)]


class PutDocuments(Request):
    """Documents to add; one whose id is there already is replaced."""

    documents: list[JsonObject] = Field(
        min_length=1,
        max_length=MAX_DOCUMENTS,
        description="Rows as a corpus has them: {id, contents}, or {id, title, text, metadata}.",
    )


class DeleteDocuments(Request):
    """Documents to delete; an id that is not there is no error."""

    ids: list[DocumentId] = Field(min_length=1, max_length=MAX_DOCUMENTS)


class DocumentsChanged(Resource):
    """The answer to a change, which every later search sees."""

    index: str
    object: str = "index.documents"
    put: int = Field(default=0, description="Documents that were added or replaced.")
    deleted: int = Field(default=0, description="Documents that were there and are no more.")
