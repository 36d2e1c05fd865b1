"""Searches over jobs: by a text in their fields, and by the model that they are about."""

import json

from sqlalchemy import ColumnElement, Text, cast, or_

from services.core.db.tables import JobRow

_MODELS = ("model", "base_model")
_ASKED = (*_MODELS, "suffix", "index", "benchmark")
_MADE = ("fine_tuned_model", "merged_model", "best_model")


def contains_text(text: str) -> ColumnElement[bool]:
    """Whether a text occurs in a searchable field: id, name, kind, names in the request and of
    results, benchmarks, metadata, queue reason and error. ASCII letters match in either case.
    """
    # Benchmarks and metadata are searched as JSON, in which other characters may be escaped.
    escaped = json.dumps(text)[1:-1]
    benchmarks = JobRow.request["benchmarks"].as_string()
    return or_(
        *(column.icontains(text, autoescape=True) for column in (*_texts(), benchmarks)),
        benchmarks.icontains(escaped, autoescape=True),
        cast(JobRow.labels, Text).icontains(escaped, autoescape=True),
    )


def is_about_model(model: str) -> ColumnElement[bool]:
    """Whether a job works with exactly this model, or made it."""
    asked = (JobRow.request[name].as_string() for name in _MODELS)
    made = (JobRow.result[name].as_string() for name in _MADE)
    return or_(*(column == model for column in (*asked, *made)))


def _texts() -> list[ColumnElement[str]]:
    return [
        JobRow.id,
        JobRow.name,
        JobRow.kind,
        JobRow.queue_reason,
        JobRow.error["message"].as_string(),
        *(JobRow.request[name].as_string() for name in _ASKED),
        *(JobRow.result[name].as_string() for name in _MADE),
    ]
