"""Settings of the retrieval process."""

import os
from typing import Annotated, Literal

from pydantic import Field

from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import MAX_BODY_BYTES, MAX_QUERIES, MAX_TOPK
from services.core.web.auth import AccessSettings
from services.retrieval.index_settings import IndexSettings


class RetrievalSettings(IndexSettings, AccessSettings):
    """Which indexes are served, and the resources used for it."""

    retrieval_index: str = Field(
        default="python",
        min_length=1,
        max_length=4096,
        description="The default index: its name, or the folder of one.",
    )
    retrieval_processes: int = Field(
        default=1, ge=1, le=64, description="Server processes that share the port and the indexes."
    )
    retrieval_threads: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Concurrent searches per process; null: cores / processes.",
    )
    retrieval_topk: int = Field(
        default=3,
        ge=1,
        le=MAX_TOPK,
        description="Passages per query unless a request says otherwise.",
    )
    retrieval_mode: IndexMode | None = Field(
        default=None,
        description="Search mode unless a request says otherwise: bm25, dense or hybrid; "
        "null: everything the index supports.",
    )
    retrieval_seconds: float = Field(
        default=120.0,
        gt=0,
        le=3600.0,
        description="Time limit of requests that set none, in seconds.",
    )
    retrieval_batch: int = Field(
        default=64, ge=1, le=4096, description="Maximum queries merged into one search."
    )
    retrieval_merge_ms: Annotated[float, Field(ge=0, le=100.0)] = Field(
        default=2.0,
        description="Maximum delay, in milliseconds, to encode a query in a batch with others.",
    )
    retrieval_request_queries: int = Field(
        default=8192, ge=1, le=MAX_QUERIES, description="Queries in one request; more get 422."
    )
    retrieval_max_queries: int = Field(
        default=16_384,
        ge=1,
        description="Queries in flight per process; more get 503.",
    )
    retrieval_cache_mb: int = Field(
        default=64, ge=0, description="Cache of answers per process; 0 disables it."
    )
    retrieval_max_body_bytes: int = Field(
        default=MAX_BODY_BYTES,
        ge=1 << 16,
        description="Largest search request or batch of documents.",
    )
    retrieval_encoder_device: str = Field(
        default="cpu",
        pattern=r"^(cpu|cuda(:\d{1,2})?)$",
        description="Where queries are encoded: cpu, cuda, or cuda:1 and so on.",
    )
    retrieval_search_device: Literal["cpu", "cuda"] = Field(
        default="cpu",
        description="Where vectors are searched: cpu, or cuda for indexes of kind flat, with a "
        "faiss that is built for it.",
    )
    retrieval_reranker: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="Cross-encoder that reranks, a folder or hub name; null: the index's encoder.",
    )

    @property
    def threads(self) -> int:
        """Concurrent searches per process."""
        return self.retrieval_threads or max(1, (os.cpu_count() or 1) // self.retrieval_processes)
