"""A hub that sends weights as far as a test lets it, and breaks connections."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from tests.support.models.hub import Hub

CHUNK = 1 << 16
WEIGHTS = ".safetensors"


class ConnectionCut(Exception):
    """Ends a response in its middle."""


class SlowHub(Hub):
    """Sends bytes of weights below ``limit`` only; ``cuts`` are positions at which a connection
    breaks, each once, and of the file ``stalled`` it sends nothing. ``asked`` are the files of its
    requests with their first byte."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 0
        self.cuts: set[int] = set()
        self.stalled: str | None = None
        self.asked: list[tuple[str, int]] = []

    async def _file(self, request: Request) -> Response:
        response = await super()._file(request)
        if not isinstance(response, FileResponse) or request.method == "HEAD":
            return response
        path = Path(response.path)
        content = await asyncio.to_thread(path.read_bytes)
        begin = int(request.headers.get("range", "bytes=0-")[len("bytes=") :].split("-")[0])
        self.asked.append((path.name, begin))
        if not path.name.endswith(WEIGHTS):
            return response
        size = len(content)
        headers = {name: response.headers[name] for name in ("etag", "x-repo-commit")}
        headers |= {"content-length": str(size - begin), "accept-ranges": "bytes"}
        headers |= {"content-range": f"bytes {begin}-{size - 1}/{size}"} if begin else {}
        parts = self._parts(path.name, content, begin)
        return StreamingResponse(parts, 206 if begin else 200, headers=headers)

    async def _parts(self, name: str, content: bytes, begin: int) -> AsyncIterator[bytes]:
        while begin < len(content):
            if begin in self.cuts:
                self.cuts.remove(begin)
                raise ConnectionCut
            if self.limit <= begin or name == self.stalled:
                await asyncio.sleep(0.01)
                continue
            cuts = [cut for cut in self.cuts if cut > begin]
            end = min(self.limit, len(content), begin + CHUNK, *cuts)
            yield content[begin:end]
            begin = end
