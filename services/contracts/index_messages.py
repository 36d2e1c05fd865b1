"""What the process that works on indexes is told to do: the content of its ``order.json``.

A worker gives such orders for jobs, and the command line for what a person asks for.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.indexes import (
    IndexBuildMetrics,
    IndexName,
    IndexSpecification,
    IndexSummary,
)

ORDER = "order.json"
MODULE = "services.retrieval.builder"
"""``python -m MODULE <folder> [<parent>]`` carries out the order in a folder and reports there; it
ends with the process of the number ``parent``."""


class _Order(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BuildIndex(_Order):
    """Build an index from a corpus, and let it take the place of one of the same name.

    ``build`` names this build: the same order given again goes on with it, or finds it done.
    """

    action: Literal["build"] = "build"
    index: IndexName
    corpus: Path = Field(description="A file of rows, or a folder of text.")
    corpus_name: str = Field(min_length=1, description="What its owner calls it.")
    specification: IndexSpecification
    build: str = Field(min_length=1, max_length=100)


class PutDocuments(_Order):
    """Add the passages of a corpus to an index, or replace those of the same ids."""

    action: Literal["put"] = "put"
    index: IndexName
    corpus: Path
    corpus_name: str = Field(min_length=1)


class DeleteDocuments(_Order):
    """Delete passages by their ids."""

    action: Literal["delete"] = "delete"
    index: IndexName
    ids: list[str] = Field(min_length=1)


class DropIndex(_Order):
    """Delete an index."""

    action: Literal["drop"] = "drop"
    index: IndexName


class ListIndexes(_Order):
    """Describe all indexes, or one."""

    action: Literal["list"] = "list"
    index: IndexName | None = None


Order = Annotated[
    BuildIndex | PutDocuments | DeleteDocuments | DropIndex | ListIndexes,
    Field(discriminator="action"),
]


class IndexBuilt(BaseModel):
    """A version that now answers, and what making it took."""

    index: str
    version: str
    metrics: IndexBuildMetrics


class DocumentsChanged(BaseModel):
    """What came of changing the documents of an index."""

    index: str
    changed: int = Field(description="Documents that were added, replaced or deleted.")
    documents: int = Field(description="Documents that the index holds now.")


class IndexDropped(BaseModel):
    """What came of deleting an index."""

    index: str
    deleted: bool = True


class Indexes(BaseModel):
    """Descriptions of indexes."""

    indexes: list[IndexSummary]
