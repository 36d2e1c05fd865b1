"""The process of a kernel, as its driver holds it."""

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
_MOST_PIECES = 16
_KERNELS_SCORE = 1000
_DRIVERS_SCORE = 900
_CHANNEL = 3


class News(NamedTuple):
    """What a kernel published: its type, its content, and the request that it is about."""

    kind: str
    content: dict[str, Any]
    request: str | None


class KernelProcess:
    """A kernel, from its start to its death.

    It works in the folder ``workspace`` and its ``channel`` brings what it publishes; ``ready``
    is for its driver to set.
    """

    def __init__(self, workspace: int) -> None:
        self.channel, other_end = socket.socketpair()
        # Their other ends are kept as well: what a kernel closes does not end them.
        self._pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        self.ready = False
        self._session = Session(key=b"")
        _set_memory_score(_KERNELS_SCORE)  # it inherits that, and may not be able to set it
        self.pid = os.fork()
        if self.pid == 0:
            ends = [*(end for _, end in self._pipes.values()), other_end.detach()]
            _become_kernel(workspace, ends)
        _set_memory_score(_DRIVERS_SCORE)
        with suppress(PermissionError, ProcessLookupError):  # it has done so itself, or is dead
            os.setpgid(self.pid, self.pid)
        self.pidfd = os.pidfd_open(self.pid)
        other_end.close()
        for output in self.outputs:
            os.set_blocking(output, False)

    @property
    def outputs(self) -> list[int]:
        """The ends of its standard output and error; they are readable when it has written."""
        return [output for output, _ in self._pipes.values()]

    def execute(self, code: str) -> str:
        """Ask for a cell to be run, and return the id of the request."""
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

    def news(self, header: Header, body: bytes) -> News:
        """What a message of the channel says; raises `MalformedMessage`."""
        try:
            _, parts = self._session.feed_identities(messages.split(body, header["sizes"]))
            message = self._session.deserialize(parts)
            request = message["parent_header"].get("msg_id")
            return News(message["msg_type"], message["content"], request)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            raise messages.MalformedMessage from None

    def printed(self) -> Iterator[tuple[str, bytes]]:
        """What it has written since, as stream and piece; not endlessly much at a time."""
        for name, (output, _) in self._pipes.items():
            with suppress(BlockingIOError):
                for _ in range(_MOST_PIECES):
                    yield name, os.read(output, _PIECE)

    def interrupt(self) -> None:
        """Send SIGINT to it and to what it waits for."""
        self._signal(signal.SIGINT)
        # A cell that awaits is cancelled by its event loop, which a signal does not wake up.
        self._request("kernel_info_request", {})

    def kill(self) -> None:
        """Send SIGKILL to it and to its children; its death is still to be waited for."""
        self._signal(signal.SIGKILL)

    def bury(self) -> int:
        """Wait for its death and let go of everything; its return code, -N after signal N."""
        self._signal(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.channel.close()
        for descriptor in (self.pidfd, *itertools.chain(*self._pipes.values())):
            os.close(descriptor)
        return os.waitstatus_to_exitcode(status)

    def _request(self, kind: str, content: dict[str, Any]) -> str:
        request = self._session.msg(kind, content)
        parts = self._session.serialize(request)
        with suppress(ChannelClosed):  # it has died, which its pidfd tells
            messages.send(self.channel, {"sizes": [len(part) for part in parts]}, b"".join(parts))
        return str(request["msg_id"])

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _become_kernel(workspace: int, ends: list[int]) -> NoReturn:
    """Be the kernel, with standard streams and the driver's channel for descriptors."""
    try:
        os.setpgid(0, 0)
        os.fchdir(workspace)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Above all of them first, so that none is written over before it has its place.
        for number, end in enumerate([fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in ends], 1):
            os.dup2(end, number)
        syscalls.close_from(_CHANNEL + 1)
        kernel.serve(socket.socket(fileno=_CHANNEL))
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    os._exit(1)


def _set_memory_score(score: int) -> None:
    """Say how likely this process, and what it forks, is to be killed when memory runs out."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(score))
