"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

SEARCHES: dict[str, Example] = {
    "words": {
        "summary": "One query, with the words that were found marked",
        "value": {"query": "sort a list in place", "topk": 5, "highlights": True},
    },
    "filtered": {
        "summary": "Two queries of one index, among passages with given metadata",
        "value": {
            "query": ["open a file", "close a socket"],
            "index": "python",
            "mode": "bm25",
            "filter": {"equals": {"module": "os"}},
        },
    },
}
