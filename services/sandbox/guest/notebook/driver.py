"""The program of a session: runs a kernel, and relays between it and the service.

The service requests cells, interrupts, restarts, file access, and the end. Messages to it:

    ready     a kernel is ready for cells
    stream    output of the running cell: ``name``, and the bytes as body
    display   a display: ``items`` with type, size and whether it is JSON; their texts as body
    error     the exception that ended the cell: ``ename``, ``evalue``, ``traceback``
    done      the cell has finished: ``ok``, its ``count`` in this kernel, and what was ``cut``
    died      the kernel exited with ``return_code``; another one is started
    file      response to a file request: ``error`` number or null, ``entries``, content as body
"""

import errno
import importlib
import os
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.guest.notebook import messages, process_group
from services.sandbox.guest.notebook.cell import Cell
from services.sandbox.guest.notebook.files import Folder
from services.sandbox.guest.notebook.process import KernelProcess

MODULES = (
    *("ipykernel.ipkernel", "ipykernel.debugger", "IPython.core.completerlib"),
    *("IPython.core.debugger", "IPython.core.logger", "IPython.core.magics.pylab"),
    *("IPython.extensions.storemagic", "pygments.lexers.python", "pygments.formatters.html"),
    *("pygments.formatters.terminal256", "stack_data", "executing", "sqlite3"),
    *("tornado.platform.asyncio", "numpy.random", "matplotlib.pyplot"),
    *("matplotlib.backends.backend_agg", "matplotlib.font_manager", "matplotlib.mathtext"),
    "matplotlib_inline.backend_inline",
)
"""None of them starts a thread or a ZeroMQ context, which would not survive the fork."""


def import_all() -> None:
    """Import `MODULES`."""
    # A kernel works without its debugger, which is as large as the rest of it.
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as fonts:
        # Otherwise matplotlib and fontconfig leave their font lists in HOME.
        caches = dict.fromkeys(("MPLCONFIGDIR", "XDG_CACHE_HOME"), fonts)
        os.environ.update(caches)
        for module in MODULES:
            importlib.import_module(module)
    for name in caches:
        del os.environ[name]
    del sys.modules["debugpy"]


import_all()  # in the zygote, long before `main`


def main(descriptor: int) -> NoReturn:
    """Serve the channel with this descriptor, in the current work directory, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        Driver(socket.socket(fileno=descriptor)).run()
    except ChannelClosed:
        os._exit(0)
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    os._exit(1)


class Driver:
    """A session: one kernel at a time, which runs one cell at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._inbox = messages.Inbox(channel)
        self._workspace = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        self._folder = Folder(self._workspace)
        self._selector = selectors.PollSelector()
        self._cell: Cell | None = None
        self._start_kernel()

    def run(self) -> None:
        """Serve until the service closes the channel, which raises `ChannelClosed`."""
        self._selector.register(self._channel, selectors.EVENT_READ, self._handle_requests)
        while True:
            due = None if self._cell is None else self._cell.seconds_to_flush
            for key, _ in self._selector.select(due):
                if key.fileobj in self._selector.get_map():  # not removed meanwhile
                    key.data()
            if self._cell and self._cell.seconds_to_flush == 0:
                self._cell.flush()

    def _start_kernel(self) -> None:
        self._kernel = KernelProcess(self._workspace)
        self._messages = messages.Inbox(self._kernel.channel)
        for output in self._kernel.outputs:
            self._selector.register(output, selectors.EVENT_READ, self._relay_output)
        self._selector.register(self._kernel.channel, selectors.EVENT_READ, self._relay_messages)
        self._selector.register(self._kernel.pidfd, selectors.EVENT_READ, self._replace_kernel)

    def _replace_kernel(self) -> None:
        kernel = self._kernel
        self._relay_messages()
        self._relay_output()
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._channel:
                self._selector.unregister(key.fileobj)
        if self._cell is not None:
            self._cell.flush()
            self._cell = None
        self._send({"type": "died", "return_code": kernel.reap()})
        if not kernel.ready:
            os._exit(1)  # the next one would fail as well
        process_group.await_end(kernel.pid)
        self._start_kernel()

    def _relay_output(self) -> None:
        for stream, piece in self._kernel.printed():
            if self._cell is not None:
                self._cell.printed(stream, piece)
            elif not self._kernel.ready:
                os.write(2, piece)  # why it does not start

    def _relay_messages(self) -> None:
        try:
            for header, body in self._messages.take():
                self._relay_output()  # first, because it was written first
                self._relay(*self._kernel.parse(header, body))
        except (ChannelClosed, messages.MalformedMessage) as end:
            if isinstance(end, messages.MalformedMessage):  # a cell can write to this channel
                self._kernel.kill()
            with suppress(KeyError):  # it may be unregistered already
                self._selector.unregister(self._kernel.channel)

    def _relay(self, kind: str, content: dict[str, Any], request: str | None) -> None:
        cell = self._cell
        if kind == "iopub_welcome" and not self._kernel.ready:
            self._kernel.ready = True
            self._send({"type": "ready"})
        elif cell is not None:
            with suppress(KeyError, TypeError):  # a cell can publish anything
                self._relay_to_cell(cell, kind, content, request)

    def _relay_to_cell(
        self, cell: Cell, kind: str, content: dict[str, Any], request: str | None
    ) -> None:
        if kind in ("display_data", "execute_result", "update_display_data"):
            cell.shown(content["data"])
        elif kind == "stream" and content["name"] in ("stdout", "stderr"):
            cell.printed(content["name"], content["text"].encode(errors="replace"))
        elif request != cell.request:
            pass  # output of a thread or process that outlived its cell
        elif kind == "execute_input":
            cell.counted(content["execution_count"])
        elif kind == "error":
            cell.failed(content)
        elif kind == "status" and content["execution_state"] == "idle":
            self._cell = None
            cell.ended()

    def _handle_requests(self) -> None:
        for header, body in self._inbox.take():
            match header["type"]:
                case "execute":
                    request = self._kernel.execute(body.decode())
                    self._cell = Cell(self._send, request, header["budget"])
                case "interrupt" if self._cell is not None:
                    self._cell.interrupt(self._kernel.interrupt)
                case "restart":
                    self._kernel.kill()
                case "end":
                    self._kernel.reap()  # its usage then counts as this process's
                    os._exit(0)
                case "write" | "read" | "list":
                    self._handle_file_request(header, body)

    def _handle_file_request(self, header: Header, body: bytes) -> None:
        answer: Header = {"type": "file", "error": None, "entries": []}
        content = b""
        try:
            match header["type"]:
                case "write":
                    answer["entries"] = self._folder.write(header["path"], body)
                case "read":
                    content = self._folder.read(header["path"], header["max_bytes"])
                case "list":
                    answer["entries"] = self._folder.names(header["after"], header["limit"])
        except OSError as error:
            answer["error"] = error.errno or errno.EIO
        self._send(answer, content)

    def _send(self, header: Header, body: bytes = b"") -> None:
        messages.send(self._channel, header, body)
