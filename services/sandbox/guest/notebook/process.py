"""The process of a kernel, from the driver's point of view."""

import fcntl
import itertools
import os
import signal
import socket
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from jupyter_client.session import Session

from services.sandbox.guest import syscalls
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.guest.notebook import kernel, messages

_PIECE = 1 << 16
_MAX_PIECES = 16
_CHANNEL = 3


class PublishedMessage(NamedTuple):
    """A message that the kernel published: type, content, and the request it belongs to."""

    kind: str
    content: dict[str, Any]
    request: str | None


class KernelProcess:
    """A kernel process.

    It works in the folder ``workspace``; ``channel`` carries what it publishes; the driver sets
    ``ready``.
    """

    def __init__(self, workspace: int) -> None:
        self.channel, other_end = socket.socketpair()
        # Keep the write ends open, so that a kernel closing its own does not end the streams.
        self._pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        self.ready = False
        self._session = Session(key=b"")
        self.pid = os.fork()
        if self.pid == 0:
            ends = [*(end for _, end in self._pipes.values()), other_end.detach()]
            _become_kernel(workspace, ends)
        with suppress(PermissionError, ProcessLookupError):  # it has done so itself, or has died
            os.setpgid(self.pid, self.pid)
        self.pidfd = os.pidfd_open(self.pid)
        other_end.close()
        for output in self.outputs:
            os.set_blocking(output, False)

    @property
    def outputs(self) -> list[int]:
        """The read ends of its stdout and stderr."""
        return [output for output, _ in self._pipes.values()]

    def execute(self, code: str) -> str:
        """Request the execution of a cell; return the id of the request."""
        return self._request(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )

    def parse(self, header: Header, body: bytes) -> PublishedMessage:
        """Decode a message of the channel; raises `MalformedMessage`."""
        try:
            _, parts = self._session.feed_identities(messages.split(body, header["sizes"]))
            message = self._session.deserialize(parts)
            request = message["parent_header"].get("msg_id")
            return PublishedMessage(message["msg_type"], message["content"], request)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            raise messages.MalformedMessage from None

    def printed(self) -> Iterator[tuple[str, bytes]]:
        """What it has written, as (stream, piece); a bounded amount per call."""
        for name, (output, _) in self._pipes.items():
            with suppress(BlockingIOError):
                for _ in range(_MAX_PIECES):
                    yield name, os.read(output, _PIECE)

    def interrupt(self) -> None:
        """Send SIGINT to its process group."""
        self._signal(signal.SIGINT)
        # A cell that awaits is cancelled by its event loop, which a signal does not wake.
        self._request("kernel_info_request", {})

    def kill(self) -> None:
        """Send SIGKILL to its process group; `reap` must still be called."""
        self._signal(signal.SIGKILL)

    def reap(self) -> int:
        """Kill it, wait for it and close everything; return its exit code, -N after signal N."""
        self._signal(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.channel.close()
        for descriptor in (self.pidfd, *itertools.chain(*self._pipes.values())):
            os.close(descriptor)
        return os.waitstatus_to_exitcode(status)

    def _request(self, kind: str, content: dict[str, Any]) -> str:
        request = self._session.msg(kind, content)
        parts = self._session.serialize(request)
        with suppress(ChannelClosed):  # it has died; its pidfd reports that
            messages.send(self.channel, {"sizes": [len(part) for part in parts]}, b"".join(parts))
        return str(request["msg_id"])

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _become_kernel(workspace: int, ends: list[int]) -> NoReturn:
    """Become the kernel, with standard streams and the driver's channel as descriptors."""
    try:
        os.setpgid(0, 0)
        os.fchdir(workspace)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Duplicate above all of them first, so that none is overwritten.
        for number, end in enumerate([fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in ends], 1):
            os.dup2(end, number)
        syscalls.close_from(_CHANNEL + 1)
        kernel.serve(socket.socket(fileno=_CHANNEL))
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    os._exit(1)
