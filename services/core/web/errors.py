"""The one place where errors become responses."""

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts import errors
from services.contracts.base import ErrorBody, ErrorDetail
from services.core.web.validation import describe_problems

logger = logging.getLogger(__name__)

STATUS: Mapping[type[errors.TemperError], tuple[int, str]] = {
    errors.InvalidRequest: (400, "invalid_request_error"),
    errors.Unprocessable: (422, "invalid_request_error"),
    errors.AuthenticationFailed: (401, "authentication_error"),
    errors.PermissionDenied: (403, "permission_error"),
    errors.NotFound: (404, "invalid_request_error"),
    errors.Conflict: (409, "conflict_error"),
    errors.PayloadTooLarge: (413, "invalid_request_error"),
    errors.UnsupportedEncoding: (415, "invalid_request_error"),
    errors.RateLimited: (429, "rate_limit_error"),
    errors.StorageFull: (507, "server_error"),
    errors.BadGateway: (502, "server_error"),
    errors.Unavailable: (503, "server_error"),
    errors.GatewayTimeout: (504, "server_error"),
}


def install_error_handlers(app: FastAPI) -> None:
    """Respond to every error with OpenAI's error body."""
    app.add_exception_handler(errors.TemperError, _temper_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


def documented_errors(*kinds: type[errors.TemperError]) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route for OpenAPI: its errors, all with the same body."""
    described: dict[int | str, dict[str, Any]] = {
        "default": {"model": ErrorBody, "description": "Any other error."}
    }
    for kind in kinds:
        status, type_ = _status_of(kind)
        example = ErrorBody(error=ErrorDetail(message="...", type=type_, code=kind.code))
        described[status] = {
            "model": ErrorBody,
            "description": (kind.__doc__ or "").partition("\n")[0],
            "content": {"application/json": {"example": example.model_dump(mode="json")}},
        }
    return described


def error_answer(error: errors.TemperError) -> JSONResponse:
    """The response to an error."""
    status, type_ = _status_of(type(error))
    if status == 500:
        logger.error("%s", error.message, exc_info=error)
    # Retrying does not resolve a conflict or a full disk; OpenAI clients honor this header.
    headers = {"x-should-retry": "false"} if status in (409, 507) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.RateLimited):
        headers |= error.headers
    if isinstance(error, errors.Unavailable | errors.GatewayTimeout | errors.RateLimited):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    details = error.details if isinstance(error, errors.Unprocessable) else None
    detail = ErrorDetail(
        message=error.message, type=type_, param=error.param, code=error.code, details=details
    )
    return _response(status, detail, headers)


def internal_error_response(error: Exception) -> JSONResponse:
    """The response to a bug; its trace is logged."""
    logger.error("unexpected error", exc_info=error)
    detail = ErrorDetail(message="internal error", type="server_error", code="internal_error")
    return _response(500, detail)


def _status_of(kind: type[errors.TemperError]) -> tuple[int, str]:
    return next((STATUS[cls] for cls in kind.__mro__ if cls in STATUS), (500, "server_error"))


def _response(
    status: int, detail: ErrorDetail, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body = ErrorBody(error=detail).model_dump(mode="json")
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


def _temper_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, errors.TemperError):
        raise error
    return error_answer(error)


def _validation_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    body_field = getattr(request.scope.get("route"), "body_field", None)
    body_type = body_field.field_info.annotation if body_field is not None else None
    return _response(400, describe_problems(error, body_type))


def _http_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error.__cause__, errors.TemperError):  # raised while FastAPI read the body
        return error_answer(error.__cause__)
    code = HTTPStatus(error.status_code).name.lower()
    detail = ErrorDetail(message=str(error.detail), type="invalid_request_error", code=code)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed_methods(request))
    return _response(error.status_code, detail, headers)


def _allowed_methods(request: Request) -> list[str]:
    """The methods of all routes of the path; Starlette names only those of the first."""
    scope = dict(request.scope)
    allowed: list[str] = []
    for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"):
        scope["method"] = method
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            allowed.append(method)
    return allowed


class UnexpectedErrors:
    """ASGI middleware for bugs: logged with their trace, answered without it.

    It is inside the request id middleware, so that these responses have an id too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; respond 500 if that raises before the response started."""
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
            await internal_error_response(error)(scope, receive, send)
