"""Errors of the local stack."""

from collections.abc import Sequence

from temper.client.errors import ClientError


class StackError(ClientError):
    """The stack cannot start or stop; ``last_lines`` of a log may explain why."""

    code = "stack_error"

    def __init__(self, message: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.last_lines = last_lines


class AlreadyRunning(StackError):
    """Another ``temper up`` uses the home folder."""

    code = "already_running"


class PortTaken(StackError):
    """Another process listens on a service's port."""

    code = "port_taken"


class ServiceDied(StackError):
    """A service exited unexpectedly; ``status`` is an exit code, or minus a signal number.

    It is None where the process could not be started, or killed.
    """

    code = "service_died"

    def __init__(
        self, message: str, last_lines: Sequence[str] = (), *, status: int | None = None
    ) -> None:
        super().__init__(message, last_lines)
        self.status = status


class StillRunning(StackError):
    """Processes of the stack did not end, not even when they were killed."""

    code = "still_running"

    def __init__(self, processes: Sequence[str]) -> None:
        super().__init__(
            f"cannot kill {', '.join(processes)}: waiting in the kernel, for a device or a remote "
            "file system; `temper down` tries again"
        )


class NotReady(StackError):
    """The stack did not become ready in time."""

    code = "not_ready"
