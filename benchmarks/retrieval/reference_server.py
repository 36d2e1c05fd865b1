"""The yardstick: /retrieve as published servers have it, one request at a time.

A request is searched by itself, its queries encoded together where there are several, while all
others wait; nothing is merged and nothing is kept. It answers on the same web framework and HTTP
server as the service, over the same index, so that a difference is one of serving; ENCODING says
whether also the model is run as the service runs it.

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
from services.contracts.indexes import IndexMode
from services.retrieval.store.query import Hit

DEFAULT_TOPK = 3


class Request(BaseModel):
    """What clients send."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create_app(libraries: Libraries) -> FastAPI:
    """The server's application."""
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
