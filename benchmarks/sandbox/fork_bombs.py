"""Latency of small programs beside fork bombs.

Starts the service as it would be in a container (in a processor group of its own, without control
groups for its programs) or with them, keeps some fork bombs running and asks for `print` meanwhile.
Needs root. Run from the repository root:

    python -m benchmarks.sandbox.fork_bombs --tier container
    python -m benchmarks.sandbox.fork_bombs --tier full --bombs 3 --others 4 --seconds 20
"""

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

from benchmarks.sandbox.connection import Connection
from benchmarks.sandbox.programs import PROGRAMS
from benchmarks.sandbox.servers import our_service
from benchmarks.serving.server import RUNTIMES
from services.core.process.runtimes import find_runtime
from tests.support.programs.reachable import launcher

_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
_BOMB_SECONDS = 5.0
_GATHERING_SECONDS = 2.0
_FILES = ("/bin/sh", "-c", 'mount -t tmpfs tmp /mnt && exec env TMPDIR=/mnt "$@"', "sh")
_GROUPS = Path("/sys/fs/cgroup/cpu")


def main() -> None:
    """Run the benchmark."""
    given = _arguments()
    python = find_runtime(RUNTIMES, "sandbox").python
    with _processor_group() as enter:
        contained = [*launcher("container", python), *_FILES]
        command = [*enter, *(contained if given.tier == "container" else [])]
        with our_service(command, TEMPER_SANDBOX_TIER=given.tier) as server:
            asyncio.run(_drill(server.port, given))


async def _drill(port: int, given: argparse.Namespace) -> None:
    calm = _Others(port)
    await calm.ask(given.others, time.monotonic() + given.seconds / 4)
    print(f"without bombs: {calm}", flush=True)
    end = time.monotonic() + _GATHERING_SECONDS + given.seconds
    bombs = [asyncio.create_task(_bomb(port, end)) for _ in range(given.bombs)]
    await asyncio.sleep(_GATHERING_SECONDS)
    beside = _Others(port)
    await beside.ask(given.others, end)
    print(f"beside {given.bombs} bombs: {beside}", flush=True)
    results = [answer for task in bombs for answer in await task]
    late = max(seconds for _, seconds in results) - _BOMB_SECONDS
    kinds = sorted({status for status, _ in results})
    print(f"bombs: {len(results)}, {', '.join(kinds)}, at most {late:.2f} s after their limit")


async def _bomb(port: int, end: float) -> list[tuple[str, float]]:
    """Run fork bombs one after the other; return their statuses and seconds."""
    body = {"code": _BOMB, "language": "python", "run_timeout": _BOMB_SECONDS}
    connection = Connection(port, keep=True)
    results = []
    while time.monotonic() < end:
        began = time.monotonic()
        status, content = await connection.post(json.dumps(body).encode())
        result = json.loads(content) if status == 200 else {}
        kind = (result.get("run_result") or {}).get("status", f"status {status}")
        results.append((kind, time.monotonic() - began))
    connection.close()
    return results


class _Others:
    """Small programs and their latencies."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._program = PROGRAMS["print"]
        self._bodies = self._program.bodies("")
        self._latencies: list[float] = []
        self._wrong = 0

    async def ask(self, at_once: int, end: float) -> None:
        """Keep a number of programs in flight until ``end``."""
        await asyncio.gather(*(self._one_after_another(end) for _ in range(at_once)))

    async def _one_after_another(self, end: float) -> None:
        connection = Connection(self._port, keep=True)
        while time.monotonic() < end:
            began = time.monotonic()
            status, content = await connection.post(next(self._bodies))
            self._latencies.append(time.monotonic() - began)
            result = json.loads(content).get("run_result") if status == 200 else None
            self._wrong += result is None or result["stdout"] != self._program.stdout
        connection.close()

    def __str__(self) -> str:
        if len(self._latencies) < 2:
            return f"{len(self._latencies)} programs"
        percentiles = quantiles(self._latencies, n=100, method="inclusive")
        return (
            f"{len(self._latencies)} programs, {self._wrong} wrong, p50 {percentiles[49]:.3f} s, "
            f"p99 {percentiles[98]:.3f} s, at most {max(self._latencies):.3f} s"
        )


@contextlib.contextmanager
def _processor_group() -> Iterator[list[str]]:
    """Yield a command prefix that uses a separate CPU control group, as in a container."""
    if not (_GROUPS / "cgroup.procs").exists():  # with cgroup v2 the server has one anyway
        yield []
        return
    group = _GROUPS / f"temper-benchmark-{time.monotonic_ns()}"
    group.mkdir()
    try:
        yield ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        with contextlib.suppress(OSError):  # the last processes are being reaped
            group.rmdir()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sandbox.fork_bombs", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--tier", choices=["full", "container"], default="container")
    parser.add_argument("--bombs", type=int, default=3, help="fork bombs at once")
    parser.add_argument("--others", type=int, default=2, help="small programs at once")
    parser.add_argument("--seconds", type=float, default=20.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
