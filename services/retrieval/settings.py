"""Settings of the retrieval process."""

import os
from typing import Annotated, Literal

from pydantic import Field

from services.contracts.indexes import IndexMode
from services.contracts.retrieval import MAX_BODY_BYTES, MAX_TOPK
from services.core.web.auth import AccessSettings
from services.retrieval.index_settings import IndexSettings


class RetrievalSettings(IndexSettings, AccessSettings):
    """Which indexes are served, and with how much of the machine."""

    retrieval_index: str = Field(
        default="python",
        min_length=1,
        max_length=4096,
        description="The index that is searched unless a request names another: "
        "its name, or the folder of one.",
    )
    retrieval_processes: int = Field(
        default=1, ge=1, le=64, description="Processes that answer; they share port and indexes."
    )
    retrieval_threads: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Searches at once in a process; null: the cores, shared by the processes.",
    )
    retrieval_topk: int = Field(
        default=3, ge=1, le=MAX_TOPK, description="Passages a query where a request does not say."
    )
    retrieval_mode: IndexMode | None = Field(
        default=None,
        description="What searches go by where a request does not say: bm25, dense or hybrid; "
        "null: all that the index has.",
    )
    retrieval_seconds: float = Field(
        default=30.0, gt=0, le=3600.0, description="Time limit of a request that sets none."
    )
    retrieval_batch: int = Field(
        default=64, ge=1, le=4096, description="Queries that are merged into one search at most."
    )
    retrieval_merge_ms: Annotated[float, Field(ge=0, le=100.0)] = Field(
        default=2.0,
        description="Longest that a query waits for others to be encoded with, when any are.",
    )
    retrieval_max_queries: int = Field(
        default=4096,
        ge=1,
        description="Queries that a process has in work or waiting; more get 503.",
    )
    retrieval_cache_mb: int = Field(
        default=64, ge=0, description="Answers that a process keeps for repeated queries; 0: none."
    )
    retrieval_max_body_bytes: int = Field(
        default=MAX_BODY_BYTES, ge=1 << 16, description="Largest search, or batch of documents."
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
        """How many searches one process runs at once."""
        return self.retrieval_threads or max(1, (os.cpu_count() or 1) // self.retrieval_processes)
