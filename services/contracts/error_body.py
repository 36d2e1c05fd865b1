"""The error body of every service."""

from typing import Any

from services.contracts.base import Resource


class ErrorDetail(Resource):
    """What went wrong: one sentence, OpenAI's error type, the field at fault and a stable code."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None
    details: list[dict[str, Any]] | None = None


class ErrorBody(Resource):
    """The body of every response with a status of 400 or more."""

    error: ErrorDetail
