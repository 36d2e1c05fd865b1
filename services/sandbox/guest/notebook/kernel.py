"""IPython's kernel, whose ZeroMQ channels stay within its process.

Two threads carry their messages, as they are, to a socket and back: a kernel needs neither ports
nor paths. What is printed goes straight to standard output and error.
"""

import faulthandler
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

import numpy as np
import zmq
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.jsonutil import json_default
from traitlets.config import Config

from services.sandbox.guest import frames
from services.sandbox.guest.notebook import messages


class Publisher(IOPubThread):  # type: ignore[misc]
    """The thread that publishes: it alone sends, whatever happens to the others.

    The original asks whether the thread lives, and sends from the caller's if not. An interrupt
    that comes during `Thread.is_alive` makes Python 3.11 believe that the thread has ended; from
    then on two threads would write into each other's messages.
    """

    _silent = False

    def schedule(self, work: Callable[[], None]) -> None:
        if not self._silent:
            self._events.append(work)
            self._event_pipe.send(b"")

    def fall_silent(self) -> None:
        """Publish nothing more: in a fork the thread is missing."""
        self._silent = True


class Kernel(IPKernelApp):  # type: ignore[misc]
    """IPython's kernel; its channels have names within the process for addresses."""

    channels = 0

    def init_connection_file(self) -> None:
        """There is nothing to connect to from outside."""

    def write_connection_file(self, **_: Any) -> None:
        """As above."""

    def init_heartbeat(self) -> None:
        """Whoever started the process sees whether it lives."""

    def init_iopub(self, context: "zmq.Context[Any]") -> None:
        """Publish without a limit, for what is dropped is lost, and not from forks.

        For those a port would be opened, and ZeroMQ aborts where there are none. They can print;
        what they show goes nowhere.
        """
        context.sndhwm = 0
        published = context.socket(zmq.XPUB)
        self.iopub_port = self._bind_socket(published, 0)
        self.configure_tornado_logger()
        publisher = self.iopub_thread = Publisher(published, pipe=False, session=self.session)
        publisher.start()
        self.iopub_socket = publisher.background_socket
        os.register_at_fork(after_in_child=publisher.fall_silent)

    def _bind_socket(self, channel: "zmq.Socket[bytes]", _port: int) -> int:
        self.channels += 1
        channel.bind(address(self.channels))
        return self.channels


def address(channel: int) -> str:
    """Where a channel of the kernel is found, within its process."""
    return f"inproc://kernel-{channel}"


def serve(driver: socket.socket) -> None:
    """Be a kernel, in the work directory and with the driver's socket, until it is ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    faulthandler.enable(file=2, all_threads=False)
    np.random.seed()  # it was seeded before the fork; Python's own generator does so by itself
    temporary = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - the session's own
    os.environ["IPYTHONDIR"] = f"{temporary}/.ipython"
    kernel = Kernel.instance(config=_config(), log_level=logging.CRITICAL, outstream_class=None)
    kernel.initialize([])
    kernel.shell.system = kernel.shell.system_raw  # the other one needs a terminal
    for name in [name for name in sys.modules if name.split(".")[0] == "services"]:
        del sys.modules[name]
    for carry in (_carry_requests, _carry_news):
        threading.Thread(target=carry, args=(kernel, driver), daemon=True).start()
    kernel.start()


def _config() -> Config:
    config = Config()
    config.HistoryManager.enabled = False  # nobody will look into its database
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.display_page = True
    config.InteractiveShellApp.matplotlib = "inline"
    config.Session.key = b""
    config.Session.packer = f"{__name__}.pack"
    return config


def pack(content: object) -> bytes:
    """A part of a message as JSON in ASCII: halves of surrogate pairs do not stop it."""
    return json.dumps(content, default=json_default, separators=(",", ":")).encode()


def _stream(number: int) -> IO[str]:
    errors = "backslashreplace" if number == 2 else "surrogateescape"
    mode = "w" if number else "r"
    return open(number, mode, encoding="utf-8", errors=errors, buffering=1, closefd=False)


def _carry_requests(kernel: Kernel, driver: socket.socket) -> None:
    """Pass on what the driver asks; the answers say nothing that the news do not."""
    shell = kernel.context.socket(zmq.DEALER)
    shell.connect(address(kernel.shell_port))
    while True:
        header, _ = frames.receive(driver)
        parts = messages.split(bytes(frames.exactly(driver, sum(header["sizes"]))), header["sizes"])
        shell.send_multipart(parts)
        while shell.poll(0):
            shell.recv_multipart()


def _carry_news(kernel: Kernel, driver: socket.socket) -> None:
    """Pass on what the kernel publishes."""
    published = kernel.context.socket(zmq.SUB)
    published.rcvhwm = 0
    published.subscribe(b"")
    published.connect(address(kernel.iopub_port))
    while True:
        parts = published.recv_multipart()
        messages.send(driver, {"sizes": [len(part) for part in parts]}, b"".join(parts))
