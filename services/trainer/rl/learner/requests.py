"""The line to the coordinator, shared by all processes of a learner."""

import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from services.trainer.rl.learner.processes import Processes
from services.trainer.rl.learner.protocol import ANSWER, REQUEST, Answer, Request

CONNECT_SECONDS = 30.0
HEARTBEAT_SECONDS = 60.0
"""Processes that only listen hear this often that there is nothing to do yet."""


class Coordinator:
    """The connection of the leading process; the others hear through it."""

    def __init__(self, path: Path, processes: Processes) -> None:
        """Connect, in the leading process."""
        self._processes = processes
        self._received = b""
        self._socket = socket.socket(socket.AF_UNIX)
        if processes.leads:
            self._socket.settimeout(CONNECT_SECONDS)
            self._socket.connect(str(path))
            self._socket.settimeout(HEARTBEAT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def requests(self) -> Iterator[Request]:
        """What the coordinator asks, until it closes the connection."""
        while (line := self._processes.shared(self._line)) != b"":
            if line != b"\n":
                yield REQUEST.validate_json(line)

    def tell(self, answer: Answer) -> None:
        """Send an answer, from the leading process."""
        if self._processes.leads:
            self._socket.sendall(ANSWER.dump_json(answer) + b"\n")

    def _line(self) -> bytes:
        """The next line; an empty one when nothing came for a while, b"" at the end."""
        while b"\n" not in self._received:
            try:
                received = self._socket.recv(1 << 20)
            except TimeoutError:
                return b"\n"
            if not received:
                return b""
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line
