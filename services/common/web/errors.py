"""The one place where errors become responses."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.common import errors
from services.common.contracts.errors import ErrorBody, ErrorDetail

logger = logging.getLogger(__name__)

STATUS: Mapping[type[errors.TemperError], tuple[int, str]] = {
    errors.InvalidRequest: (400, "invalid_request_error"),
    errors.AuthenticationFailed: (401, "authentication_error"),
    errors.PermissionDenied: (403, "permission_error"),
    errors.NotFound: (404, "invalid_request_error"),
    errors.Conflict: (409, "conflict_error"),
    errors.PayloadTooLarge: (413, "invalid_request_error"),
    errors.StorageFull: (507, "server_error"),
    errors.Unavailable: (503, "server_error"),
}
MAX_DETAILS = 20


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error with OpenAI's error body."""
    app.add_exception_handler(errors.TemperError, _temper_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(OperationalError, _database_error)


def error_response(
    status: int,
    detail: ErrorDetail,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error body with its status."""
    body = ErrorBody(error=detail).model_dump(mode="json")
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


def _temper_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, errors.TemperError):
        raise error
    status, type_ = next(
        (STATUS[cls] for cls in type(error).__mro__ if cls in STATUS), (500, "server_error")
    )
    if status == 500:
        logger.error("%s", error.message, exc_info=error)
    # A conflict or a full disk will not go away by asking again at once; clients honour this.
    headers = {"x-should-retry": "false"} if status in (409, 507) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    detail = ErrorDetail(message=error.message, type=type_, param=error.param, code=error.code)
    return error_response(status, detail, headers)


def _validation_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    problems = [_problem(item) for item in error.errors()[:MAX_DETAILS]]
    first = problems[0]
    message = f"{first['param']}: {first['message']}" if first["param"] else first["message"]
    if len(problems) > 1:
        message += f" (and {len(error.errors()) - 1} more)"
    detail = ErrorDetail(
        message=message,
        type="invalid_request_error",
        param=first["param"] or None,
        code="invalid_request",
        details=problems,
    )
    return error_response(400, detail)


def _problem(item: Mapping[str, Any]) -> dict[str, str]:
    location: Sequence[str | int] = item["loc"]
    if item["type"] == "json_invalid":
        return {"param": "", "message": f"the body is not JSON: {item['ctx']['error']}"}
    return {"param": _path(location[1:]), "message": str(item["msg"])}


def _path(location: Sequence[str | int]) -> str:
    """Write a location as a person would: ``method.supervised.tags[0]``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _http_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    detail = ErrorDetail(message=str(error.detail), type="invalid_request_error", code="http_error")
    return error_response(error.status_code, detail, error.headers)


def _database_error(_request: Request, error: Exception) -> JSONResponse:
    logger.error("database: %s", error)
    detail = ErrorDetail(
        message="the database does not answer", type="server_error", code="database_unavailable"
    )
    return error_response(503, detail, {"Retry-After": "2"})


class UnexpectedErrors:
    """ASGI middleware for faults of ours: logged with their trace, answered without it.

    It sits below the request ids, so that these responses carry one too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer 500 when that raises before a response began."""
        started = False

        async def send_noted(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except Exception as error:
            if started or scope["type"] != "http":
                raise
            logger.error("unexpected error", exc_info=error)
            detail = ErrorDetail(
                message="internal error", type="server_error", code="internal_error"
            )
            await error_response(500, detail)(scope, receive, send)
