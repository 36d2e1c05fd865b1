"""What is wrong with a request, told in the words of the request itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError

from services.common.contracts.errors import ErrorDetail

MAX_DETAILS = 20


def describe_problems(error: RequestValidationError) -> ErrorDetail:
    """The first problem as message and param, and up to ``MAX_DETAILS`` of them as details."""
    found = error.errors()
    problems = [_problem(item, error.body) for item in found[:MAX_DETAILS]]
    first = problems[0]
    message = f"{first['param']}: {first['message']}" if first["param"] else first["message"]
    if len(found) > 1:
        message += f" (and {len(found) - 1} more)"
    return ErrorDetail(
        message=message,
        type="invalid_request_error",
        param=first["param"] or None,
        code="invalid_request",
        details=problems,
    )


def _problem(item: Mapping[str, Any], body: object) -> dict[str, str]:
    if item["type"] == "json_invalid":
        return {"param": "", "message": f"the body is not JSON: {item['ctx']['error']}"}
    if item["loc"] == ("body",) and not isinstance(body, dict):
        message = "send a JSON object, with Content-Type: application/json"
        return {"param": "", "message": message}
    message = str(item["msg"]).removeprefix("Value error, ")
    return {"param": _param(item["loc"], body, item["type"] == "missing"), "message": message}


def _param(location: Sequence[str | int], body: object, is_missing: bool) -> str:
    """Write a location as a person would: ``method.supervised.tags[0]``.

    pydantic also names the members of unions that it tried. What the request does not hold is
    left out, but for the name of what it lacks.
    """
    source, *parts = location
    if source != "body":
        return ".".join(str(part) for part in parts)
    text, value = "", body
    for part in parts:
        if isinstance(value, list) and isinstance(part, int):
            text, value = f"{text}[{part}]", value[part]
        elif isinstance(value, dict) and part in value:
            text, value = f"{text}.{part}", value[part]
    if is_missing:
        text = f"{text}.{parts[-1]}"
    return text.removeprefix(".")
