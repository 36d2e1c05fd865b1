"""The error model: exceptions, and the body that every error response has.

An error is raised where it is known, as the class of the boundary it crossed, and becomes a
response (services.core.web) or a failed job (services.jobs.worker) in one place each. Its
message is for the person who can act on it: it names the field, row, file or setting.
"""

from collections.abc import Mapping, Sequence


class TemperError(Exception):
    """Base of the errors that Temper raises on purpose.

    ``code`` is stable and machine-readable; ``param`` names the request field at fault.
    ``retryable``: a process died that a job depends on, and another attempt may succeed.
    """

    code = "internal_error"
    retryable = False

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code


class InvalidRequest(TemperError):
    """The request is invalid."""

    code = "invalid_request"


class Unprocessable(InvalidRequest):
    """A field has an unacceptable value, on a route whose contract answers that with 422.

    ``details`` are all problems found, each with its ``param`` and ``message``.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        details: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(message, param=param)
        self.details = details


class AuthenticationFailed(TemperError):
    """The API key is missing or unknown."""

    code = "invalid_api_key"


class PermissionDenied(TemperError):
    """The operator's settings forbid the request."""

    code = "permission_denied"


class NotFound(TemperError):
    """The resource does not exist."""

    code = "not_found"


class Conflict(TemperError):
    """The state of the resource does not allow the request."""

    code = "conflict"


class PayloadTooLarge(TemperError):
    """The request is larger than the operator allows."""

    code = "payload_too_large"


class UnsupportedEncoding(TemperError):
    """The body is compressed, or encoded otherwise."""

    code = "unsupported_encoding"


class StorageFull(TemperError):
    """The disk is full; nothing of the request was stored."""

    code = "storage_full"


class Unavailable(TemperError):
    """A dependency does not respond; the same request may succeed later.

    Clients should wait ``retry_after`` seconds.
    """

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float = 2.0, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class RateLimited(TemperError):
    """The key has exceeded its rate limit.

    ``headers`` of the response tell the limits; clients should wait ``retry_after`` seconds.
    """

    code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after: float, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.headers = headers


class BadGateway(TemperError):
    """An upstream service closed the connection before it responded."""

    code = "bad_gateway"


class GatewayTimeout(TemperError):
    """No answer in time, or none expected in time; retry after ``retry_after`` seconds."""

    code = "timed_out"

    def __init__(self, message: str, *, retry_after: float = 2.0, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class ConfigurationError(TemperError):
    """The settings are invalid; the process refuses to start."""

    code = "configuration_error"


class JobFailed(TemperError):
    """Fails the job with this error."""

    code = "job_failed"
