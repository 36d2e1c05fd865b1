"""A stand-in for a cloud's metadata: a server of this machine at a link-local address."""

import contextlib
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Iterator

import pytest

ADDRESS = "169.254.213.7"
"""Not one that a cloud uses, as the machine may be in one."""
ANSWER = b"credentials"


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(ANSWER)


@contextlib.contextmanager
def metadata_service() -> Iterator[tuple[str, int]]:
    """Its address and port; it says `ANSWER` to whatever connects. Root is needed."""
    if (program := shutil.which("ip")) is None:
        pytest.skip("no `ip` to give this machine a link-local address (iproute2)")
    place = (f"{ADDRESS}/32", "dev", "lo")
    subprocess.run([program, "address", "replace", *place], check=True)
    try:
        with socketserver.ThreadingTCPServer((ADDRESS, 0), _Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield ADDRESS, server.server_address[1]
            server.shutdown()
    finally:
        subprocess.run([program, "address", "delete", *place], check=True)
