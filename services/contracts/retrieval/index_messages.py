"""Messages to the builder process, and its results.

Sent by the worker for jobs and by the command line; stored as ``order.json``.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.retrieval.indexes import (
    IndexBuildMetrics,
    IndexMode,
    IndexName,
    IndexSpecification,
    IndexSummary,
)
from services.contracts.retrieval.search import MAX_TOPK, SearchHit

MESSAGE_FILE = "order.json"
MODULE = "services.retrieval.builder"
"""``python -m MODULE FOLDER [PARENT_PID]`` executes the message in FOLDER and reports there; it
exits when the process PARENT_PID does."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class BuildIndex(_Message):
    """Build an index from a corpus, replacing the one of the same name.

    ``build`` identifies the build: sending the message again resumes it, or finds it done.
    """

    action: Literal["build"] = "build"
    index: IndexName
    corpus: Path = Field(description="Corpus: a file of rows, or a folder of text.")
    corpus_name: str = Field(min_length=1, description="Display name of the corpus.")
    vectors: Path | None = Field(
        default=None,
        description="Precomputed vectors: a flat faiss index with the encoder's vectors of the "
        "passages, in their order, or a folder of its parts; null: they are "
        "computed.",
    )
    specification: IndexSpecification
    build: str = Field(min_length=1, max_length=100)


class PutCorpus(_Message):
    """Add the passages of a corpus, replacing those with the same ids."""

    action: Literal["put"] = "put"
    index: IndexName
    corpus: Path
    corpus_name: str = Field(min_length=1)


class DeletePassages(_Message):
    """Delete passages by their ids."""

    action: Literal["delete"] = "delete"
    index: IndexName
    ids: list[str] = Field(min_length=1)


class DropIndex(_Message):
    """Delete an index."""

    action: Literal["drop"] = "drop"
    index: IndexName


class ListIndexes(_Message):
    """Describe all indexes, or one."""

    action: Literal["list"] = "list"
    index: IndexName | None = None


class SearchIndex(_Message):
    """Search an index."""

    action: Literal["search"] = "search"
    index: IndexName
    query: str
    topk: int = Field(default=3, ge=1, le=MAX_TOPK)
    mode: IndexMode | None = None


IndexMessage = Annotated[
    BuildIndex | PutCorpus | DeletePassages | DropIndex | ListIndexes | SearchIndex,
    Field(discriminator="action"),
]


class IndexBuilt(BaseModel):
    """A published version, with its build metrics."""

    index: str
    version: str
    metrics: IndexBuildMetrics


class PassagesChanged(BaseModel):
    """The result of changing documents."""

    index: str
    changed: int = Field(description="Documents that were added, replaced or deleted.")
    documents: int = Field(description="Documents that the index holds now.")


class PassagesFound(BaseModel):
    """The best passages of a query, best first."""

    index: str
    mode: IndexMode
    hits: list[SearchHit]


class IndexDropped(BaseModel):
    """The result of deleting an index."""

    index: str
    deleted: bool = True


class Indexes(BaseModel):
    """Descriptions of indexes."""

    indexes: list[IndexSummary]
