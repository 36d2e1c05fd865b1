"""What can go wrong with the local stack."""

from collections.abc import Sequence

from temper.client.errors import ClientError


class StackError(ClientError):
    """The local stack cannot do what was asked; ``last_lines`` of a log may tell more."""

    code = "stack_error"

    def __init__(self, message: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.last_lines = last_lines


class AlreadyRunning(StackError):
    """Another ``temper up`` holds the home folder."""

    code = "already_running"


class PortTaken(StackError):
    """Something else listens where the gateway should."""

    code = "port_taken"


class ServiceDied(StackError):
    """A service ended that should not have, with ``status``: an exit code, or minus a signal."""

    code = "service_died"

    def __init__(self, message: str, last_lines: Sequence[str] = (), *, status: int) -> None:
        super().__init__(message, last_lines)
        self.status = status


class NotReady(StackError):
    """The stack did not get ready within its time."""

    code = "not_ready"
