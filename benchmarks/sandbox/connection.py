"""A minimal HTTP client, cheap compared to the server."""

import asyncio

HEAD_END = b"\r\n\r\n"


class Connection:
    """A connection to the server, opened on first use and again after an error."""

    def __init__(self, port: int, *, keep: bool) -> None:
        self._port = port
        self._keep = keep
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """Send one call; return the status and the body of its answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = (
            "POST /run_code HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}"
        )
        writer.write(head.encode() + HEAD_END + body)
        answer = (await reader.readuntil(HEAD_END)).lower()
        _, _, length = answer.partition(b"content-length:")
        content = await reader.readexactly(int(length.partition(b"\r\n")[0]))
        if not self._keep or b"connection: close" in answer:
            self.close()
        return int(answer.split(b" ", 2)[1]), content

    def close(self) -> None:
        """Drop the connection and the request in flight."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
