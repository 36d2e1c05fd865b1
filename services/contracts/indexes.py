"""Indexes of passages: how they are asked for, described and built."""

import re
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from services.contracts.base import Metadata, Request, Resource
from services.contracts.jobs import JobState, Placement

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class IndexMode(StrEnum):
    """What an index can be searched by, and what a search goes by."""

    BM25 = "bm25"  # the words of query and passage
    DENSE = "dense"  # vectors that an encoder makes of both
    HYBRID = "hybrid"  # both, fused by rank


class DenseKind(StrEnum):
    """How vectors are stored and searched."""

    AUTO = "auto"  # what suits the number of passages
    FLAT = "flat"  # every vector in full; exact
    SQ8 = "sq8"  # every vector, a byte a dimension
    HNSW = "hnsw"  # a graph of neighbours over bytes
    RABITQ = "rabitq"  # clusters of vectors at seven bits a dimension
    IVFPQ = "ivfpq"  # clusters of short codes; the best of them scored again from a file


def checked_name(name: str) -> str:
    """The name of an index; raises ValueError. It is also the name of its folder."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "must have 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or a digit"
        )
    return name


IndexName = Annotated[str, AfterValidator(checked_name)]


class IndexSpecification(Request):
    """What an index is built with."""

    mode: IndexMode = Field(default=IndexMode.BM25, description="What it can be searched by.")
    language: str | None = Field(
        default="english",
        max_length=32,
        description="Whose words are reduced to their stems (Snowball's names); null: none.",
    )
    encoder: str | None = Field(
        default=None,
        max_length=512,
        description="A sentence-transformers model: its folder or hub name; null: the built-in.",
    )
    dense: DenseKind = Field(default=DenseKind.AUTO, description="How vectors are stored.")


class IndexSummary(Resource):
    """An index as /v1/indexes lists it."""

    name: str
    object: str = "index"
    version: str
    mode: IndexMode | None = Field(description="Null where the index cannot be read.")
    documents: int
    created_at: int
    language: str | None = None
    dense: DenseKind | None = Field(default=None, description="How its vectors are stored.")
    dimension: int | None = None
    encoder: str | None = None
    bytes_on_disk: int = 0
    problem: str | None = Field(
        default=None,
        description="Why a newer version is not served, when there is one, or none at all.",
    )

    @classmethod
    def unusable(cls, name: str, version: str, problem: str) -> Self:
        """An index of which no version can be read."""
        return cls(
            name=name, version=version, mode=None, documents=0, created_at=0, problem=problem
        )


class CreateIndexingJob(IndexSpecification, Placement):
    """The body of POST /v1/indexing/jobs."""

    index: IndexName = Field(
        description="Name of the index; one of that name answers until this one is complete.",
        examples=["wiki"],
    )
    file: str = Field(
        min_length=1,
        max_length=200,
        description="Rows of {id, contents} or {title, text, metadata}.",
        examples=["file-abc123"],
    )
    encoder: str | None = Field(
        default=None,
        max_length=200,
        description="A registered model that sentence-transformers loads; null: the built-in.",
    )
    metadata: Metadata | None = None


class IndexBuildMetrics(Resource):
    """What came of a build. ``seconds`` are those of the attempt that completed it."""

    documents: int
    bytes_on_disk: int
    seconds: float
    documents_per_second: float


class IndexingJob(JobState):
    """A job that builds an index."""

    object: Literal["indexing.job"] = "indexing.job"
    index: str
    file: str
    mode: IndexMode
    language: str | None
    encoder: str | None
    dense: DenseKind
    version: str | None = Field(default=None, description="The version of the index it made.")
    metrics: IndexBuildMetrics | None = None
