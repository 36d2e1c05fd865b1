"""Scripted TCP servers on loopback."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SECONDS = 30.0

Conversation = Callable[[socket.socket], None]


@dataclass
class Server:
    """A server that plays the same script on every connection."""

    listener: socket.socket
    conversation: Conversation
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def place(self) -> str:
        return f"{self.listener.getsockname()[0]}:{self.port}"

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(SECONDS)
            self.conversation(connection)


@contextlib.contextmanager
def server(conversation: Conversation, host: str = "127.0.0.1") -> Iterator[Server]:
    """A server that runs until the end of the block."""
    with socket.create_server((host, 0), backlog=128) as listener:
        running = Server(listener, conversation)
        thread = threading.Thread(target=running.serve)
        thread.start()
        try:
            yield running
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(SECONDS)
            for connection in running.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    return data


def read_head(connection: socket.socket) -> bytes:
    """A head, byte by byte: what follows is left. Raises OSError when the other side has ended."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = connection.recv(1)
        if not piece:
            raise ConnectionResetError(head)
        head += piece
    return head


def echo(connection: socket.socket) -> None:
    """Send back what comes, to its end."""
    while piece := connection.recv(1 << 16):
        connection.sendall(piece)
