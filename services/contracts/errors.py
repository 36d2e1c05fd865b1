"""The error model: exceptions, and the body that every error response has.

An error is raised where it is known, as the class of the boundary it crossed, and becomes a
response (services.core.web) or a failed job (services.core.worker) in one place each. Its
message is for the person who can act on it: it names the field, row, file or setting.
"""

from collections.abc import Mapping, Sequence


class TemperError(Exception):
    """Base of every error Temper raises on purpose.

    ``code`` is stable and machine-readable; ``param`` names the request field at fault.
    """

    code = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code


class InvalidRequest(TemperError):
    """The request can never succeed as it stands."""

    code = "invalid_request"


class Unprocessable(InvalidRequest):
    """A field has a value that cannot be taken, on a route whose contract answers that with 422.

    ``details`` are all the problems found, each with its ``param`` and ``message``.
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
    """No key was given, or an unknown one."""

    code = "invalid_api_key"


class PermissionDenied(TemperError):
    """The operator's settings forbid what was asked."""

    code = "permission_denied"


class NotFound(TemperError):
    """The named thing does not exist."""

    code = "not_found"


class Conflict(TemperError):
    """The thing exists but its state does not allow what was asked."""

    code = "conflict"


class PayloadTooLarge(TemperError):
    """More was sent than the operator accepts."""

    code = "payload_too_large"


class StorageFull(TemperError):
    """The disk is full; nothing of the request was kept."""

    code = "storage_full"


class Unavailable(TemperError):
    """Something Temper depends on does not answer; the same request may succeed later.

    It is not worth trying before ``retry_after`` seconds have passed.
    """

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float = 2.0, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class BadGateway(TemperError):
    """A service that the request was passed on to broke off before it answered."""

    code = "bad_gateway"


class GatewayTimeout(TemperError):
    """No answer in time, or none to be expected; ``retry_after`` seconds later there may be one."""

    code = "timed_out"

    def __init__(self, message: str, *, retry_after: float = 2.0, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class ConfigurationError(TemperError):
    """The operator's settings do not work; the process refuses to start."""

    code = "configuration_error"


class JobFailed(TemperError):
    """Work on a job ended in a way that fails the job; becomes its ``error``."""

    code = "job_failed"
