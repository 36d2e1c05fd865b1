"""The protocol between the service and its slots and zygotes: messages and their meaning."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence

from services.sandbox.execution import (
    Command,
    Executable,
    Execution,
    ExitReason,
    PythonFile,
    PythonModule,
)
from services.sandbox.guest.frames import (
    CANCEL,
    LARGEST_HEADER,
    MAX_DESCRIPTORS,
    PREFIX,
    ChannelClosed,
    Header,
    encode,
)
from services.sandbox.guest.layout import PROXY_PORT

_PIECE = 1 << 16


class MessageUnread(ChannelClosed):
    """The other end closed before it had read everything that was sent to it."""


class Channel:
    """Messages to and from one process. Only one task may receive, and one send, at a time."""

    def __init__(self, own_end: socket.socket) -> None:
        own_end.setblocking(False)
        self._socket = own_end
        self._received = bytearray()
        self._descriptors: list[int] = []
        self._waiting: asyncio.Future[None] | None = None

    async def send(
        self,
        header: Header,
        bodies: Iterable[bytes] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send a message; raises `ChannelClosed`.

        Our descriptors stay open; the peer receives duplicates.
        """
        loop = asyncio.get_running_loop()
        bodies = list(bodies)
        length = sum(map(len, bodies))
        data = encode(header, body_length=length)
        if length <= _PIECE:  # the usual case: one system call, and one wake-up of the receiver
            data, bodies = b"".join((data, *bodies)), []
        try:
            sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else 0
            if sent < len(data):
                await loop.sock_sendall(self._socket, memoryview(data)[sent:])
            for body in bodies:
                await loop.sock_sendall(self._socket, body)
        except (BrokenPipeError, ConnectionResetError):
            raise ChannelClosed from None

    async def send_cancel(self) -> None:
        """Cancel the current run, if there is one."""
        with contextlib.suppress(OSError):  # the other end or this one is closed
            await asyncio.get_running_loop().sock_sendall(self._socket, CANCEL)

    async def receive(self) -> tuple[Header, bytes]:
        """Wait for a message; raises `ChannelClosed`."""
        header_length, body_length = PREFIX.unpack(await self._take(PREFIX.size))
        if header_length > LARGEST_HEADER:
            raise ChannelClosed
        header: Header = json.loads(await self._take(header_length))
        return header, await self._take(body_length)

    def take_descriptor(self) -> int:
        """Take the next descriptor that came with a message; raises `ChannelClosed`."""
        if not self._descriptors:
            raise ChannelClosed
        return self._descriptors.pop(0)

    def close(self) -> None:
        """Close this end; a pending `receive` raises `ChannelClosed`.

        The death of the peer alone is not noticed: a fork of it may still hold the other end.
        """
        if self._waiting is not None:
            self._waiting.get_loop().remove_reader(self._socket)
            if not self._waiting.done():
                self._waiting.set_exception(ChannelClosed())
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()

    async def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            self._received += await self._next()
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    async def _next(self) -> bytes:
        while True:
            if self._socket.fileno() < 0:
                raise ChannelClosed
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, _PIECE, MAX_DESCRIPTORS)
            except BlockingIOError:
                await self._wait_for_more()
                continue
            except ConnectionResetError:
                raise MessageUnread from None
            self._descriptors += descriptors
            if not data:
                raise ChannelClosed
            return data

    async def _wait_for_more(self) -> None:
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        loop.add_reader(self._socket, resolve, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            if self._socket.fileno() >= 0:  # otherwise `close` did it
                loop.remove_reader(self._socket)


BASIC_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "SHELL": "/bin/bash",
    # Numeric libraries start their threads on import, in the zygote, and threads do not survive a
    # fork. Programs share the machine's cores anyway.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}
"""The environment of every program; the service's own never leaks into it."""

_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_PROXY_ENVIRONMENT = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    "NO_PROXY": "localhost,127.0.0.1,::1",
}


class NotebookCommand:
    """The driver of a notebook's kernel, which serves a channel until it is killed."""


def run_environment(
    layout: Mapping[str, str], extra: Mapping[str, str], *, proxied: bool
) -> dict[str, str]:
    """The variables that depend on the run."""
    workspace, temporary = layout["workspace"], layout["temporary"]
    own = {"HOME": workspace, "PWD": workspace, "TMPDIR": temporary}
    if proxied:  # programs read one spelling or the other
        own |= _PROXY_ENVIRONMENT
        own |= {name.lower(): value for name, value in _PROXY_ENVIRONMENT.items()}
    return {**own, **extra}


def build_request(
    execution: Execution,
    command: Command | NotebookCommand,
    seconds: float | None,
    environment: Mapping[str, str],
) -> Header:
    """The message that starts ``command`` with the files and limits of ``execution``."""
    kind, arguments = _program(command)
    return {
        "program": {"kind": kind, "arguments": arguments, "environment": environment},
        "files": [
            (name, len(data), name in execution.executable_files)
            for name, data in execution.files.items()
        ],
        "links": list(execution.links.items()),
        "seconds": seconds,
        "memory_bytes": execution.limits.memory_bytes,
        "fetch": list(execution.fetch),
    }


def split_files(answer: Header, body: bytes) -> dict[str, bytes]:
    """Split a body into the fetched files that the result lists."""
    files, at = {}, 0
    for name, size in answer["files"]:
        files[name] = body[at : at + size]
        at += size
    return files


def killed_result(exit_reason: str, wall_seconds: float) -> Header:
    """The result of a run whose slot was killed with it."""
    return {
        "exit_reason": exit_reason,
        "return_code": -signal.SIGKILL,
        "wall_seconds": wall_seconds,
        "cpu_seconds": 0.0,
        "waited_seconds": 0.0,
        "peak_memory_bytes": 0,
        "files": [],
        "left_out": [],
    }


def exit_reason_of(answer: Header, *, memory_ran_out: bool) -> ExitReason:
    """Why the program ended; one that survives the OOM kill of a child has exited normally."""
    if answer["exit_reason"] == "timed_out":
        return ExitReason.TIMED_OUT
    if answer["exit_reason"] == "out_of_memory" or (memory_ran_out and answer["return_code"]):
        return ExitReason.OUT_OF_MEMORY
    if answer["exit_reason"] in (ExitReason.OUT_OF_DISK, ExitReason.FORK_BOMB):
        return ExitReason(answer["exit_reason"])
    return ExitReason.EXITED


def _program(command: Command | NotebookCommand) -> tuple[str, tuple[str, ...]]:
    match command:
        case PythonFile(file, arguments):
            return "file", (file, *arguments)
        case PythonModule(module, arguments):
            return "module", (module, *arguments)
        case Executable(arguments):
            return "executable", arguments
        case NotebookCommand():
            return "notebook", ()


async def readable(waiting: socket.socket | int) -> None:
    """Wait until a socket or descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(waiting, resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(waiting)


def resolve(ready: "asyncio.Future[None]") -> None:
    """Resolve the future unless it was cancelled."""
    if not ready.done():
        ready.set_result(None)
