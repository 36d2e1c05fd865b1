"""The baseline: /retrieve as published servers implement it, one request at a time.

Each request is searched alone, with its queries encoded in one batch, while all others wait,
without batching across requests and without a cache. It uses the same web framework, HTTP server
and index as the service, so that only the serving differs; ENCODING selects whether the model, too,
runs as in the service.

    python -m benchmarks.retrieval.reference_server PORT INDEX MODE ENCODING
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.retrieval.libraries import Encoding, Libraries
from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.query import Hit

DEFAULT_TOPK = 3


class Request(BaseModel):
    """The request body."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create_app(libraries: Libraries) -> FastAPI:
    """Create the server's application."""
    app = FastAPI()
    one_at_a_time = threading.Lock()

    @app.post("/retrieve")
    def retrieve(request: Request) -> dict[str, Any]:
        with one_at_a_time:
            found = libraries.search(request.queries, request.topk or DEFAULT_TOPK)
        return {"result": [[_shown(hit, request.return_scores) for hit in hits] for hits in found]}

    return app


def _shown(hit: Hit, with_score: bool) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(hit.document)
    return {"document": document, "score": hit.score} if with_score else document


if __name__ == "__main__":
    opened = Libraries(Path(sys.argv[2]), IndexMode(sys.argv[3]), Encoding(sys.argv[4]))
    uvicorn.run(create_app(opened), port=int(sys.argv[1]), log_level="warning")
