"""Passage indexes: build parameters, summaries, indexing jobs, and changed documents."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from services.contracts.base import JsonObject, Request, Resource
from services.contracts.jobs import JobRequest, JobState

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class IndexMode(StrEnum):
    """Search modes of an index, and how each ranks."""

    BM25 = "bm25"  # lexical
    DENSE = "dense"  # embedding similarity
    HYBRID = "hybrid"  # both, by reciprocal rank fusion


class DenseKind(StrEnum):
    """Storage and search of vectors."""

    AUTO = "auto"  # chosen by the number of passages
    FLAT = "flat"  # full precision, exhaustive
    SQ8 = "sq8"  # 8-bit scalar quantization, exhaustive
    HNSW = "hnsw"  # HNSW graph over 8-bit vectors
    RABITQ = "rabitq"  # IVF with 7-bit RaBitQ codes
    IVFPQ = "ivfpq"  # IVF with product quantization, refined with 8-bit codes


def checked_name(name: str) -> str:
    """Validate an index name, which is also its folder's name; raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "must have 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or a digit"
        )
    return name


def is_index_name(name: str) -> bool:
    """Whether an index can have this name."""
    return _NAME.fullmatch(name) is not None


IndexName = Annotated[str, AfterValidator(checked_name)]


class IndexSpecification(Request):
    """Build parameters of an index."""

    mode: IndexMode = Field(default=IndexMode.BM25, description="Search mode of the index.")
    language: str | None = Field(
        default="english",
        max_length=32,
        description="Language of the stemmer, by Snowball's name; null: no stemming.",
    )
    encoder: str | None = Field(
        default=None,
        max_length=512,
        description="Encoder of the index, a sentence-transformers model by folder or hub name; "
        "null: the built-in.",
    )
    dense: DenseKind = Field(default=DenseKind.AUTO, description="Storage of the vectors.")

    @field_validator("encoder")
    @classmethod
    def _has_vectors(cls, encoder: str | None, info: ValidationInfo) -> str | None:
        if encoder is not None and info.data.get("mode") is IndexMode.BM25:
            raise ValueError("needs mode dense or hybrid")
        return encoder


class IndexSummary(Resource):
    """An index in listings."""

    name: str
    object: str = "index"
    version: str
    mode: IndexMode | None = Field(description="Search mode; null where the index cannot be read.")
    documents: int
    created_at: int
    language: str | None = None
    dense: DenseKind | None = Field(default=None, description="Storage of the vectors.")
    dimension: int | None = None
    encoder: str | None = None
    bytes_on_disk: int = 0
    problem: str | None = Field(
        default=None,
        description="Reason why the index cannot be read or an older state of it is served; null: "
        "none.",
    )

    @classmethod
    def unusable(cls, name: str, version: str, problem: str) -> Self:
        """The summary of an index without a readable version."""
        return cls(
            name=name, version=version, mode=None, documents=0, created_at=0, problem=problem
        )


class CreateIndexingJob(IndexSpecification, JobRequest):
    """The body of POST /v1/indexing/jobs."""

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ("file",)

    index: IndexName = Field(
        description="Name of the index; one of that name answers until this one is complete.",
        examples=["wiki"],
    )
    file: str = Field(
        min_length=1,
        max_length=200,
        description="Corpus file: rows of {id, contents} or {title, text, metadata}.",
        examples=["file-abc123"],
    )
    encoder: str | None = Field(
        default=None,
        max_length=200,
        description="A registered model that sentence-transformers loads; null: the built-in.",
    )


class IndexBuildMetrics(Resource):
    """Metrics of a build; ``seconds`` are those of the completing attempt."""

    documents: int = Field(description="Number of indexed documents.")
    bytes_on_disk: int = Field(description="Size of the version on disk, in bytes.")
    seconds: float = Field(description="Seconds of the attempt that completed the build.")
    documents_per_second: float = Field(description="Mean rate of indexed documents per second.")


class IndexingJob(JobState):
    """A job that builds an index."""

    object: Literal["indexing.job"] = "indexing.job"
    index: str = Field(description="Name of the index.")
    file: str = Field(description="Corpus file that is indexed.")
    mode: IndexMode = Field(description="Search mode of the index.")
    language: str | None = Field(
        description="Language of the stemmer, by Snowball's name; null: no stemming."
    )
    encoder: str | None = Field(
        description="Model that turns passages into vectors; null: the built-in one, or none with "
        "mode bm25."
    )
    dense: DenseKind = Field(description="Storage of the vectors.")
    version: str | None = Field(
        default=None,
        description="Version of the index that the job made; null until it has succeeded.",
    )
    metrics: IndexBuildMetrics | None = Field(
        default=None, description="Metrics of the build; null until it has succeeded."
    )


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
