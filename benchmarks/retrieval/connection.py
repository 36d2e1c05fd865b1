"""A minimal non-blocking HTTP client, cheap compared to the server."""

import socket
import time

HEAD_END = b"\r\n\r\n"
RECEIVE_BYTES = 1 << 18
CONNECT_SECONDS = 10.0


class Connection:
    """A connection to the server that carries one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._received = b""
        self._wanted = 0
        self.queries = 0
        self.begun = 0.0
        self.socket = self._connect()

    def send(self, body: bytes, queries: int) -> None:
        """Send a request of ``queries`` queries; raises OSError."""
        self.queries = queries
        self._received, self._wanted = b"", 0
        self.begun = time.perf_counter()
        head = (
            b"POST /retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        # A request is far smaller than what a socket's buffer takes at once.
        if self.socket.send(head + body) != len(head) + len(body):
            raise OSError("the server does not read its requests")

    def receive(self) -> tuple[int, bytes] | None:
        """Read available bytes; return status and body once complete; raises OSError."""
        part = self.socket.recv(RECEIVE_BYTES)
        if not part:
            raise ConnectionResetError("the server closed the connection")
        self._received = self._received + part if self._received else part
        if not self._wanted:
            end = self._received.find(HEAD_END)
            if end < 0:
                return None
            _, _, length = self._received[:end].lower().partition(b"\r\ncontent-length:")
            self._wanted = end + len(HEAD_END) + int(length.partition(b"\r\n")[0])
        if len(self._received) < self._wanted:
            return None
        status = int(self._received[9:12])
        return status, self._received[self._received.find(HEAD_END) + len(HEAD_END) :]

    def reconnect(self) -> None:
        """Drop the connection and its request in flight; raises OSError."""
        self.close()
        self.socket = self._connect()

    def close(self) -> None:
        """Drop the connection."""
        self.socket.close()

    def _connect(self) -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self._port), CONNECT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        return connected
