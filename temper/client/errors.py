"""Errors of the client.

Every error has a stable ``code`` and a one-line message. `ApiError` is a response of the gateway;
the others mean that there was no usable response.
"""


class ClientError(Exception):
    """Base of all errors that the client raises deliberately."""

    code = "client_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ApiError(ClientError):
    """The gateway rejected the request.

    ``status`` is the HTTP status, ``param`` the invalid request field, ``request_id`` identifies
    the request in the gateway's log.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        param: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.request_id = request_id


class Unreachable(ClientError):
    """The gateway did not respond, even after the retries that the request allows."""

    code = "unreachable"


class UnexpectedAnswer(ClientError):
    """The response is not one that a gateway of this version sends."""

    code = "unexpected_answer"


class WaitTimedOut(ClientError):
    """A job did not end within the caller's timeout; it keeps running."""

    code = "wait_timed_out"
