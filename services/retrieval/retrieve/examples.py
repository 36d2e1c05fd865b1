"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

QUERIES: dict[str, Example] = {
    "queries": {
        "summary": "Two questions, with the scores of what is found",
        "value": {
            "queries": ["how is a list sorted", "what closes a file"],
            "topk": 3,
            "return_scores": True,
        },
    },
}
