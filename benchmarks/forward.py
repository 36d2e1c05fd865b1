"""Latency that the gateway adds to a forwarded tool request.

A stand-in for the service answers at once; the same requests go to it directly and through a real
gateway, in turn, so that whatever else the machine does meets both alike. Prints milliseconds, for
connections that are kept and for a new one each time, as most callers of tools make. Run from the
repository root:

    python -m benchmarks.forward [requests]
"""

import asyncio
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send

from tests.support.processes import free_port, running_gateway
from tests.support.waiting import wait_for

REQUESTS = 3000
WARM_UP = 300
AT_ONCE = 64

REQUEST = json.dumps(
    {
        "compile_timeout": 10,
        "run_timeout": 10,
        "code": "print(1 + 1)",
        "stdin": "",
        "memory_limit_MB": 1024,
        "language": "python",
        "files": {},
        "fetch_files": [],
    }
).encode()
RESULT = {"status": "Finished", "execution_time": 0.003, "return_code": 0, "stdout": "2\n"}
ANSWER = json.dumps({"status": "Success", "run_result": RESULT, "files": {}}).encode()


def main() -> None:
    """Run the benchmark."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    with tempfile.TemporaryDirectory() as folder, running_stub() as stub:
        settings = {"TEMPER_HOME": folder, "TEMPER_SANDBOX_URL": f"http://127.0.0.1:{stub}"}
        with running_gateway(settings, Path(folder) / "gateway.log") as url:
            gateway = int(url.rpartition(":")[2])
            print(f"{'':<22}{'direct':>9}{'gateway':>9}{'added':>9}   ms, median")
            for name, is_kept in (("connection kept", True), ("new connection", False)):
                compare(name, Caller(stub, is_kept), Caller(gateway, is_kept), requests)
            for port, name in ((stub, "direct"), (gateway, "through the gateway")):
                rate = asyncio.run(requests_per_second(port, requests))
                print(f"{name}: {rate:,.0f} requests/s at {AT_ONCE} at once")


class Caller:
    """Calls /run_code over one connection, or over a new one each time."""

    def __init__(self, port: int, is_kept: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._is_kept = is_kept

    def seconds(self) -> float:
        """The time of one call, from asking to the whole answer."""
        started = time.perf_counter()
        self._connection.request("POST", "/run_code", REQUEST, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        if answer.read() != ANSWER:
            raise SystemExit(f"unexpected answer {answer.status}")
        if not self._is_kept:
            self._connection.close()
        return time.perf_counter() - started


def compare(name: str, direct: Caller, through: Caller, requests: int) -> None:
    """Time both in turn and print their medians."""
    pairs = [(direct.seconds(), through.seconds()) for _ in range(WARM_UP + requests)][WARM_UP:]
    without, with_gateway = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    added = with_gateway - without
    print(f"{name:<22}{without:>9.2f}{with_gateway:>9.2f}{added:>9.2f}")


async def requests_per_second(port: int, requests: int) -> float:
    """The rate of many callers at once; each keeps its connection."""
    left = iter(range(requests))

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"POST /run_code HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(REQUEST)}\r\n\r\n"
        )
        for _ in left:
            writer.write(head.encode() + REQUEST)
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in answer or await reader.readexactly(len(ANSWER)) != ANSWER:
                raise SystemExit(f"unexpected answer {answer!r}")
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return requests / (time.perf_counter() - started)


async def stub_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer every request with the same result."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


@contextlib.contextmanager
def running_stub() -> Iterator[int]:
    """The stand-in in a process of its own; yields its port."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.forward", "--stub", str(port)]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: _answers(port), "the stand-in answers")
        yield port
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        Caller(port, is_kept=False).seconds()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stub"]:
        uvicorn.run(stub_app, port=int(sys.argv[2]), log_level="error", lifespan="off")
    else:
        main()
