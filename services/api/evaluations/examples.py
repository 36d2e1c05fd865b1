"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

CREATE: dict[str, Example] = {
    "registered": {
        "summary": "A registered model, graded by the last number of its answer",
        "value": {
            "model": "tiny-base",
            "file": "file-abc123",
            "grader": {"type": "numeric"},
            "sampling": {"max_tokens": 256},
            "metadata": {"suite": "arithmetic"},
        },
    },
    "remote": {
        "summary": "A model behind a URL that the operator allows",
        "value": {
            "model": {"base_url": "https://models.example.com/v1", "model": "big"},
            "file": "file-abc123",
            "grader": {"type": "regex", "pattern": "#### (?P<answer>-?[0-9]+)"},
            "max_samples": 200,
            "max_concurrency": 16,
        },
    },
}
