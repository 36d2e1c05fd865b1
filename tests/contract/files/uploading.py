"""Uploads sent as raw bytes to a real gateway, for requests no client library sends."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.processes import Process, free_port, running
from tests.support.waiting import wait_for

MIB = 1 << 20
MAX_UPLOAD = 51 * MIB
BOUNDARY = b"a-line-between-parts"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}
PURPOSE = b'Content-Disposition: form-data; name="purpose"\r\n\r\nfine-tune'
FILE = b'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'


@dataclass(frozen=True)
class Gateway:
    home: Path
    process: Process
    http: httpx.Client

    def stored(self) -> list[str]:
        return sorted(path.name for path in (self.home / "files").glob("*"))

    def partial(self) -> list[Path]:
        return list((self.home / "uploads").glob("*"))

    def send(self, body: bytes | Iterator[bytes], headers: dict[str, str] = FORM) -> httpx.Response:
        return self.http.post("/v1/files", content=body, headers=headers)


@contextmanager
def serving(home: Path, log: Path) -> Iterator[Gateway]:
    port = free_port()
    settings = {"TEMPER_HOME": str(home), "TEMPER_MAX_UPLOAD_BYTES": str(MAX_UPLOAD)}
    with (
        running("services.api", ["--port", str(port)], settings, log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        gateway = Gateway(home, process, client)
        wait_for(lambda: _answers(gateway), "the gateway is ready")
        yield gateway


def _answers(gateway: Gateway) -> bool:
    assert gateway.process.returncode is None, gateway.process.tail()
    try:
        return gateway.http.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def form(*parts: bytes, end: bytes = b"--\r\n") -> bytes:
    lines = b"".join(b"--" + BOUNDARY + b"\r\n" + part + b"\r\n" for part in parts)
    return lines + b"--" + BOUNDARY + end


def pieces(size: int) -> Iterator[bytes]:
    """A form with a file of ``size`` bytes, generated while it is sent."""
    yield form(PURPOSE, end=b"\r\n") + FILE
    for number in range(size // MIB):
        yield bytes([number % 251]) * MIB
    yield b"\r\n--" + BOUNDARY + b"--\r\n"
