"""Documents of an index, changed while it is served."""

from typing import Annotated

from pydantic import Field

from services.contracts.base import JsonObject, Request, Resource

MAX_DOCUMENTS = 1000

DocumentId = Annotated[str, Field(min_length=1, max_length=512)]


class PutDocuments(Request):
    """Documents to add, or to replace by id."""

    documents: list[JsonObject] = Field(
        min_length=1,
        max_length=MAX_DOCUMENTS,
        description="Rows in corpus format: {id, contents}, or {id, title, text, metadata}.",
    )


class DeleteDocuments(Request):
    """Documents to delete; unknown ids are ignored."""

    ids: list[DocumentId] = Field(min_length=1, max_length=MAX_DOCUMENTS)


class DocumentsChanged(Resource):
    """The result of a change, visible to every later search."""

    index: str
    object: str = "index.documents"
    put: int = Field(default=0, description="Documents added or replaced.")
    deleted: int = Field(default=0, description="Documents that existed and were deleted.")
