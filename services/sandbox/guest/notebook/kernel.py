"""IPython's kernel with in-process ZeroMQ channels.

Two threads relay their messages unchanged to and from a socket: the kernel needs neither ports nor
paths. Output goes directly to stdout and stderr.
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


class Publisher(IOPubThread):  # type: ignore[misc]  # ipykernel is untyped
    """The publishing thread: the only one that sends, whatever happens to the others.

    The original sends from the caller's thread if the publisher is not alive. An interrupt during
    `Thread.is_alive` makes Python 3.11 believe that the thread has ended; two threads would then
    interleave their messages.
    """

    _silent = False

    def schedule(self, work: Callable[[], None]) -> None:
        if not self._silent:
            self._events.append(work)
            self._event_pipe.send(b"")

    def stop_publishing(self) -> None:
        """Stop publishing: a fork lacks the thread."""
        self._silent = True


class Kernel(IPKernelApp):  # type: ignore[misc]  # ipykernel is untyped
    """IPython's kernel on inproc channels."""

    channels = 0

    def init_connection_file(self) -> None:
        """Not needed: nothing connects from outside."""

    def write_connection_file(self, **_: Any) -> None:
        """As above."""

    def init_heartbeat(self) -> None:
        """Not needed: the parent process monitors this one."""

    def init_iopub(self, context: "zmq.Context[Any]") -> None:
        """Publish without a high-water mark, which would drop messages, and not from forks.

        Publishing from forks would open a port, and ZeroMQ aborts where it cannot. Forks can print;
        what they display is lost.
        """
        context.sndhwm = 0
        published = context.socket(zmq.XPUB)
        self.iopub_port = self._bind_socket(published, 0)
        self.configure_tornado_logger()
        publisher = self.iopub_thread = Publisher(published, pipe=False, session=self.session)
        publisher.start()
        self.iopub_socket = publisher.background_socket
        os.register_at_fork(after_in_child=publisher.stop_publishing)

    def _bind_socket(self, channel: "zmq.Socket[bytes]", _port: int) -> int:
        self.channels += 1
        channel.bind(address(self.channels))
        return self.channels


def address(channel: int) -> str:
    """The inproc address of a channel of the kernel."""
    return f"inproc://kernel-{channel}"


def serve(driver: socket.socket) -> None:
    """Run a kernel in the work directory until it is killed; ``driver`` is the channel to it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    faulthandler.enable(file=2, all_threads=False)
    np.random.seed()  # it was seeded before the fork; Python reseeds its own generator
    temporary = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - private to the session
    os.environ["IPYTHONDIR"] = f"{temporary}/.ipython"
    kernel = Kernel.instance(config=_config(), log_level=logging.CRITICAL, outstream_class=None)
    kernel.initialize([])
    kernel.shell.system = kernel.shell.system_raw  # the default needs a terminal
    for name in [name for name in sys.modules if name.split(".")[0] == "services"]:
        del sys.modules[name]
    for carry in (_relay_requests, _relay_published):
        threading.Thread(target=carry, args=(kernel, driver), daemon=True).start()
    kernel.start()


def _config() -> Config:
    config = Config()
    config.HistoryManager.enabled = False  # nobody reads its database
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.display_page = True
    config.InteractiveShellApp.matplotlib = "inline"
    config.Session.key = b""
    config.Session.packer = f"{__name__}.pack"
    return config


def pack(content: object) -> bytes:
    """Encode a part of a message as ASCII JSON, which survives lone surrogates."""
    return json.dumps(content, default=json_default, separators=(",", ":")).encode()


def _stream(number: int) -> IO[str]:
    errors = "backslashreplace" if number == 2 else "surrogateescape"
    mode = "w" if number else "r"
    return open(number, mode, encoding="utf-8", errors=errors, buffering=1, closefd=False)


def _relay_requests(kernel: Kernel, driver: socket.socket) -> None:
    """Relay requests; replies are discarded because published messages carry the same."""
    shell = kernel.context.socket(zmq.DEALER)
    shell.connect(address(kernel.shell_port))
    while True:
        header, _ = frames.receive(driver)
        parts = messages.split(bytes(frames.exactly(driver, sum(header["sizes"]))), header["sizes"])
        shell.send_multipart(parts)
        while shell.poll(0):
            shell.recv_multipart()


def _relay_published(kernel: Kernel, driver: socket.socket) -> None:
    """Relay what the kernel publishes."""
    published = kernel.context.socket(zmq.SUB)
    published.rcvhwm = 0
    published.subscribe(b"")
    published.connect(address(kernel.iopub_port))
    while True:
        parts = published.recv_multipart()
        messages.send(driver, {"sizes": [len(part) for part in parts]}, b"".join(parts))
