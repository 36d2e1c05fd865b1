"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

CREATE: dict[str, Example] = {
    "words": {
        "summary": "Found by words",
        "value": {"index": "handbook", "file": "file-abc123"},
    },
    "hybrid": {
        "summary": "Found by words and by meaning",
        "value": {
            "index": "wiki",
            "file": "file-abc123",
            "mode": "hybrid",
            "encoder": "e5-base",
            "dense": "ivfpq",
            "metadata": {"snapshot": "2026-11"},
        },
    },
}
