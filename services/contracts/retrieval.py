"""Searching passages: POST /retrieve, whose names are Search-R1's, and POST /v1/search."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from services.contracts.base import JsonObject, Number, Page, Request, Resource
from services.contracts.indexes import IndexMode, IndexName, IndexSummary

MAX_BODY_BYTES = 16 << 20
MAX_QUERIES = 1024
MAX_TOPK = 1000
MAX_QUERY_CHARACTERS = 32_768
MAX_HITS = 20_000
"""Queries times topk of one request."""
MAX_WORKED_HITS = 1_000
"""The same for a request whose hits take work of their own: highlights, or reranking."""
MAX_ALTERNATIVES = 256

QueryText = Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)]
FieldName = Annotated[str, Field(max_length=512)]
FieldValue = Annotated[str, Field(max_length=4096)] | int | float | bool
Bound = StrictInt | StrictFloat


class RetrieveRequest(BaseModel):
    """A search as Search-R1's clients send it; fields that they add are ignored, as there."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    queries: list[QueryText] = Field(max_length=MAX_QUERIES)
    topk: StrictInt | None = Field(
        default=None, ge=0, le=MAX_TOPK, description="Passages a query; null or 0: the default."
    )
    return_scores: StrictBool = Field(
        default=False, description="Give each passage with its score."
    )
    index: IndexName | None = Field(
        default=None, description="Null: the default index. Search-R1 knows one index only."
    )


class ScoredDocument(Resource):
    """A passage and how well it fits."""

    document: JsonObject
    score: float


class RetrieveResponse(Resource):
    """The passages of each query, best first, in the order of the queries."""

    result: list[list[ScoredDocument | JsonObject]]


class Filter(Request):
    """Conditions on metadata, all of which must hold.

    ``equals`` maps a field to the value it must have, ``any_of`` to values of which it must have
    one, ``least`` and ``most`` to bounds of a number.
    """

    equals: dict[FieldName, FieldValue] = Field(default={}, max_length=16)
    any_of: dict[FieldName, Annotated[list[FieldValue], Field(max_length=MAX_ALTERNATIVES)]] = (
        Field(default={}, max_length=16)
    )
    least: dict[FieldName, Bound] = Field(default={}, max_length=16)
    most: dict[FieldName, Bound] = Field(default={}, max_length=16)


class SearchRequest(Request):
    """A search of one index."""

    query: QueryText | Annotated[list[QueryText], Field(max_length=MAX_QUERIES)] = Field(
        description="One query, or many at once."
    )
    index: IndexName | None = Field(default=None, description="Null: the default index.")
    mode: IndexMode | None = Field(default=None, description="Null: all that the index has.")
    topk: StrictInt | None = Field(default=None, ge=0, le=MAX_TOPK)
    filter: Filter | None = None
    highlights: StrictBool = Field(default=False, description="Mark the words of the query.")
    rerank: StrictBool = Field(
        default=False, description="Order the best passages anew by a slower, better score."
    )
    timeout: Number | None = Field(
        default=None, gt=0, le=3600, description="Seconds after which the answer is of no use."
    )


class HitPart(Resource):
    """Where one of the rankings that a hybrid search fuses had a passage."""

    mode: IndexMode
    rank: int = Field(description="Its place, from 1.")
    score: float


class SearchHit(Resource):
    """A passage that was found."""

    document: JsonObject
    score: float
    parts: list[HitPart] | None = Field(default=None, description="Of a hybrid search.")
    highlights: list[str] | None = Field(
        default=None, description="Extracts with the words of the query between <em> and </em>."
    )


class SearchResponse(Resource):
    """The hits of each query, best first, in the order of the queries."""

    index: str
    mode: IndexMode
    results: list[list[SearchHit]]


class CacheSummary(Resource):
    """The answers that are kept for repeated queries, of the process that answers."""

    hits: int
    misses: int
    entries: int
    bytes: int


class IndexList(Page[IndexSummary]):
    """Every index, and how often queries were answered without searching."""

    cache: CacheSummary
