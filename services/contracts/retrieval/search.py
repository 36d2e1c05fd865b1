"""Passage search: POST /retrieve, compatible with Search-R1, and POST /v1/search."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from services.contracts.base import JsonObject, Number, Page, Request, Resource
from services.contracts.retrieval.indexes import IndexMode, IndexName, IndexSummary

MAX_BODY_BYTES = 16 << 20
MAX_QUERIES = 65_536
"""Of one request; the service sets a lower limit."""
MAX_TOPK = 1000
MAX_QUERY_CHARACTERS = 32_768
"""Longer queries are truncated, with a note in the response."""
MAX_HITS = 100_000
"""Limit of queries times topk of a request."""
MAX_WORKED_HITS = 1_000
"""The same for requests with highlights or reranking, which cost work per hit."""
MAX_ALTERNATIVES = 256

FieldName = Annotated[str, Field(max_length=512)]
FieldValue = Annotated[str, Field(max_length=4096)] | int | float | bool
Bound = StrictInt | StrictFloat


class RetrieveRequest(BaseModel):
    """A search as Search-R1's clients send it; unknown fields are ignored, as there."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, defer_build=True)

    queries: list[str] = Field(max_length=MAX_QUERIES)
    topk: StrictInt | None = Field(
        default=None,
        ge=0,
        le=MAX_TOPK,
        description="Number of passages per query; null or 0: the default.",
    )
    return_scores: StrictBool = Field(
        default=False, description="Whether to return each passage with its score."
    )
    index: IndexName | None = Field(
        default=None,
        description="Index to search; null: the default one. Search-R1 knows one index only.",
    )


class ScoredDocument(Resource):
    """A passage and its score."""

    document: JsonObject = Field(description="Passage that was found.")
    score: float = Field(description="Score of the passage; higher is better.")


class RetrieveResponse(Resource):
    """The passages of each query, best first, in the order of the queries."""

    result: list[list[ScoredDocument | JsonObject]] = Field(
        description="Passages of each query, best first, in the order of the queries."
    )
    notes: list[str] | None = Field(
        default=None, description="Numbers of the queries that were cut, if any."
    )


class Filter(Request):
    """Conditions on metadata, all of which must hold.

    ``equals`` maps a field to a value, ``any_of`` to alternatives, ``least`` and ``most`` to
    inclusive numeric bounds.
    """

    equals: dict[FieldName, FieldValue] = Field(default={}, max_length=16)
    any_of: dict[FieldName, Annotated[list[FieldValue], Field(max_length=MAX_ALTERNATIVES)]] = (
        Field(default={}, max_length=16)
    )
    least: dict[FieldName, Bound] = Field(default={}, max_length=16)
    most: dict[FieldName, Bound] = Field(default={}, max_length=16)


class SearchRequest(Request):
    """A search of one index."""

    query: str | Annotated[list[str], Field(max_length=MAX_QUERIES)] = Field(
        description="Text of one query, or a list of them."
    )
    index: IndexName | None = Field(
        default=None, description="Index to search; null: the default one."
    )
    mode: IndexMode | None = Field(
        default=None, description="Search mode; null: everything that the index supports."
    )
    topk: StrictInt | None = Field(default=None, ge=0, le=MAX_TOPK)
    filter: Filter | None = None
    highlights: StrictBool = Field(
        default=False, description="Whether to highlight the words of the query."
    )
    rerank: StrictBool = Field(
        default=False, description="Whether to rerank the best passages by a slower, better score."
    )
    timeout: Number | None = Field(
        default=None, gt=0, le=3600, description="Time limit in seconds."
    )


class HitPart(Resource):
    """A passage's rank in one of the rankings that a hybrid search fuses."""

    mode: IndexMode = Field(description="Ranking that the rank is from.")
    rank: int = Field(description="Rank of the passage, counted from 1.")
    score: float = Field(description="Score of the passage in this ranking.")


class SearchHit(Resource):
    """A found passage."""

    document: JsonObject = Field(description="Passage that was found.")
    score: float = Field(description="Score of the passage; higher is better.")
    parts: list[HitPart] | None = Field(
        default=None,
        description="Ranks of the passage in the fused rankings; hybrid searches only.",
    )
    highlights: list[str] | None = Field(
        default=None, description="Extracts with the words of the query between <em> and </em>."
    )


class SearchResponse(Resource):
    """The hits of each query, best first, in the order of the queries."""

    index: str = Field(description="Name of the searched index.")
    mode: IndexMode = Field(description="Search mode that was used.")
    results: list[list[SearchHit]] = Field(
        description="Hits of each query, best first, in the order of the queries."
    )
    notes: list[str] | None = Field(
        default=None, description="Numbers of the queries that were cut, if any."
    )


class CacheSummary(Resource):
    """The cache of the answering process."""

    hits: int
    misses: int
    entries: int
    bytes: int


class IndexList(Page[IndexSummary]):
    """All indexes, and the cache's counters."""

    cache: CacheSummary
