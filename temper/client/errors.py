"""What can go wrong between a client and the gateway.

Every error has a stable ``code`` and a message of one line. `ApiError` is an answer of the
gateway; the others are about not getting a usable one, or not in time.
"""


class ClientError(Exception):
    """Base of every error that the client raises on purpose."""

    code = "client_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ApiError(ClientError):
    """The gateway refused the request.

    ``status`` is the HTTP status, ``param`` the request field at fault, ``request_id`` what the
    gateway's log calls the request.
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
    """The gateway did not answer, after the retries that the request allows."""

    code = "unreachable"


class UnexpectedAnswer(ClientError):
    """Something answered, but not as a gateway of this version does."""

    code = "unexpected_answer"


class WaitTimedOut(ClientError):
    """A job was not done within the time that the caller gave it; the job goes on."""

    code = "wait_timed_out"
