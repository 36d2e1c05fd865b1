"""Overhead of the gateway for forwarded tool requests: latency, CPU time, requests per second.

A stub of the service answers immediately; the same requests go to it directly and through a real
gateway, alternating, so that other load on the machine affects both alike. Prints milliseconds for
keep-alive connections and for a new connection per request, as most callers of tools make. Then
does the same with searches of a real retrieval service, and prints the rate through the gateway.
Run from the repository root:

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

import psutil
import uvicorn
from starlette.types import Receive, Scope, Send

from tests.support.corpora import synthetic
from tests.support.processes import free_port, running_service
from tests.support.search.service import build_index, running_retrieval
from tests.support.waiting import wait_for

REQUESTS = 3000
WARM_UP = 300
AT_ONCE = 64
PASSAGES = 20_000
ROUNDS = 5

HEAD = "POST /retrieve HTTP/1.1\r\nHost: 127.0.0.1\r\n"
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
        with running_service("services.api", settings, Path(folder) / "gateway.log") as (_, url):
            gateway = _port(url)
            print(f"{'':<22}{'direct':>9}{'gateway':>9}{'added':>9}   ms, median")
            for name, is_kept in (("connection kept", True), ("new connection", False)):
                compare(name, Caller(stub, is_kept), Caller(gateway, is_kept), requests)
    with tempfile.TemporaryDirectory() as folder:
        compare_searches(Path(folder), requests)


class Caller:
    """Calls /run_code over one connection, or over a new one each time."""

    def __init__(self, port: int, is_kept: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._is_kept = is_kept

    def seconds(self) -> float:
        """Return the time of one call, from the request to the complete response."""
        started = time.perf_counter()
        self._connection.request("POST", "/run_code", REQUEST, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        if answer.read() != ANSWER:
            raise SystemExit(f"unexpected response {answer.status}")
        if not self._is_kept:
            self._connection.close()
        return time.perf_counter() - started


def compare(name: str, direct: Caller, through: Caller, requests: int) -> None:
    """Time both, alternating, and print their medians."""
    pairs = [(direct.seconds(), through.seconds()) for _ in range(WARM_UP + requests)][WARM_UP:]
    without, with_gateway = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    added = with_gateway - without
    print(f"{name:<22}{without:>9.2f}{with_gateway:>9.2f}{added:>9.2f}")


def compare_searches(folder: Path, requests: int) -> None:
    """Search directly and through a gateway, alternating; print the rates and their ratio."""
    build_index(folder / "indexes", "made", synthetic.passages(PASSAGES))
    queries = iter(list(synthetic.questions(2 * ROUNDS * requests, PASSAGES)))
    with running_retrieval(
        folder, folder / "indexes", "made", TEMPER_RETRIEVAL_CACHE_MB="0"
    ) as service:
        settings = {"TEMPER_HOME": str(folder), "TEMPER_RETRIEVAL_URL": service.url}
        with running_service("services.api", settings, folder / "gateway.log") as (gateway, url):
            process = psutil.Process(gateway.pid)
            rates: dict[str, list[float]] = {service.url: [], url: []}
            before = sum(process.cpu_times()[:2])
            for _ in range(ROUNDS):
                for origin, measured in rates.items():
                    bodies = [_search(next(queries)) for _ in range(requests)]
                    measured.append(asyncio.run(searches_per_second(_port(origin), bodies)))
            spent = sum(process.cpu_times()[:2]) - before
    direct, through = (statistics.median(measured) for measured in rates.values())
    print(
        f"searches/s at {AT_ONCE} at once, median of {ROUNDS} rounds in turn: {direct:,.0f} direct"
    )
    print(f"{through:,.0f} through the gateway ({through / direct:.0%}), which spends")
    print(f"{1e3 * spent / (ROUNDS * requests):.2f} ms of CPU time on each")


def _search(query: str) -> bytes:
    return json.dumps({"queries": [query], "topk": 3, "return_scores": True}).encode()


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


async def searches_per_second(port: int, bodies: list[bytes]) -> float:
    """Return the rate of many concurrent callers with keep-alive connections."""
    left = iter(bodies)

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in left:
            head = f"{HEAD}Content-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answer.partition(b"content-length: ")[2].partition(b"\r")[0])
            if b" 200 " not in answer or not await reader.readexactly(length):
                raise SystemExit(f"unexpected response {answer!r}")
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return len(bodies) / (time.perf_counter() - started)


async def stub_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Return the same result to every request."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


@contextlib.contextmanager
def running_stub() -> Iterator[int]:
    """Run the stub in its own process; yield its port."""
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
