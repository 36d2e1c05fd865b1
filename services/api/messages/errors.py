"""Errors as Anthropic's API writes them."""

from starlette.responses import JSONResponse

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.core.web.errors import error_answer

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_body(error: TemperError, status: int) -> JsonObject:
    """The body of an error. Anthropic's clients show the message alone, which therefore begins with
    the field at fault."""
    field = "" if error.param is None else f"{error.param}: "
    kind = _TYPES.get(status, "api_error")
    detail = {"type": kind, "message": f"{field}{error.message}"}
    return {"type": "error", "error": {**detail, "param": error.param, "code": error.code}}


def error_response(error: TemperError) -> JSONResponse:
    """The response to an error, with the status and the headers of every other route."""
    answer = error_answer(error)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in ("content-length", "content-type")
    }
    body = error_body(error, answer.status_code)
    return JSONResponse(body, answer.status_code, headers)


def error_event(error: TemperError) -> JsonObject:
    """The last event of a stream that failed."""
    return error_body(error, error_answer(error).status_code)
