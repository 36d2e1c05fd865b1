"""The load generator, a process of its own: ``python -m benchmarks.sandbox.load PORT ...``.

Keeps a number of calls under way, checks every answer, and prints what it saw as one JSON object.
It speaks just enough HTTP to cost little beside the server.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median, quantiles

from pydantic import BaseModel

from benchmarks.sandbox.programs import PATIENCE, PROGRAMS, Program

WARM_UP = 8
"""Calls before the measured ones: files are read from disk and sources compiled by then."""

REFUSALS = (429, 503, 504)
PAUSE_AFTER_FAULT = 0.1
EXAMPLE_BYTES = 300
HEAD_END = b"\r\n\r\n"


class Observed(BaseModel):
    """What one measurement showed; times are seconds.

    Every call counts once: ``ok``; ``wrong``, another answer than the program's; ``failed``, the
    program or the sandbox; ``refused``; ``timed_out``, the client's patience; ``errors``, any
    other. ``rate`` is right answers a second of the measured time; calls under way at its end
    are waited for, and count in everything else. ``p50`` and ``p99`` are of the ``ok`` and the
    ``timed_out``, the latter taken as having lasted as long as the patience. ``example`` is the
    first answer that was not right.
    """

    ok: int = 0
    wrong: int = 0
    failed: int = 0
    refused: int = 0
    timed_out: int = 0
    errors: int = 0
    warm_up: int = 0
    rate: float = 0.0
    p50: float = float("nan")
    p99: float = float("nan")
    execution_p50: float = float("nan")
    client_cpu: float = 0.0
    example: str = ""

    @property
    def answered(self) -> int:
        """The programs whose results came, with those of the warm-up."""
        return self.ok + self.wrong + self.failed + self.warm_up

    @property
    def not_ok(self) -> dict[str, int]:
        """What went wrong, and how often."""
        kinds = ("wrong", "failed", "refused", "timed_out", "errors")
        return {kind: count for kind in kinds if (count := getattr(self, kind))}


class Result(BaseModel):
    """The part of a result that is looked at."""

    execution_time: float | None
    stdout: str | None


class Answer(BaseModel):
    """The part of an answer that is looked at."""

    status: str
    run_result: Result | None


class Connection:
    """A connection to the server, opened when it is needed and again after a fault."""

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
        """Drop the connection, and with it what is under way."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Load:
    """Calls of one program, a number of them under way at any time."""

    def __init__(self, port: int, program: Program, concurrency: int, *, keep: bool) -> None:
        self._program = program
        self._bodies = program.bodies(f"{os.getpid()}-{time.time_ns()}")
        self._connections = [Connection(port, keep=keep) for _ in range(concurrency)]
        self._observed = Observed()
        self._latencies: list[float] = []
        self._executions: list[float] = []

    async def measure(self, seconds: float) -> Observed:
        """Call for ``seconds`` after a warm-up, and wait for the calls then under way."""
        left = iter(range(WARM_UP))
        await self._call_while(lambda: next(left, None) is not None)
        self._close()  # some have been idle, and the server may be about to close them
        self._observed, self._latencies, self._executions = Observed(warm_up=WARM_UP), [], []
        begun, cpu = time.perf_counter(), time.process_time()
        in_time = 0

        def wanted() -> bool:
            nonlocal in_time
            if inside := time.perf_counter() < begun + seconds:
                in_time = self._observed.ok
            return inside

        await self._call_while(wanted)
        self._close()
        return self._observed.model_copy(
            update={
                "client_cpu": time.process_time() - cpu,
                "rate": in_time / seconds,
                **_spread(self._latencies, self._executions),
            }
        )

    def _close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def _call_while(self, wanted: Callable[[], bool]) -> None:
        async def one_after_another(connection: Connection) -> None:
            while wanted():
                await self._call(connection)

        await asyncio.gather(*map(one_after_another, self._connections))

    async def _call(self, connection: Connection) -> None:
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                status, content = await connection.post(next(self._bodies))
        except TimeoutError:
            self._observed.timed_out += 1
            self._latencies.append(PATIENCE)
            connection.close()
        except (OSError, EOFError, ValueError) as error:
            connection.close()
            await self._fault("errors", repr(error))
        else:
            if status == 200:
                self._judge(content, time.perf_counter() - begun)
            else:
                kind = "refused" if status in REFUSALS else "errors"
                await self._fault(kind, f"{status} {content[:EXAMPLE_BYTES]!r}")

    def _judge(self, content: bytes, seconds: float) -> None:
        answer = Answer.model_validate_json(content)
        if answer.status != "Success" or answer.run_result is None:
            self._count("failed", repr(content[:EXAMPLE_BYTES]))
        elif answer.run_result.stdout != self._program.stdout:
            self._count("wrong", repr(content[:EXAMPLE_BYTES]))
        else:
            self._observed.ok += 1
            self._latencies.append(seconds)
            self._executions.append(answer.run_result.execution_time or 0.0)

    async def _fault(self, kind: str, example: str) -> None:
        self._count(kind, example)
        # Not to hammer a server that turns calls away.
        await asyncio.sleep(PAUSE_AFTER_FAULT)

    def _count(self, kind: str, example: str) -> None:
        setattr(self._observed, kind, getattr(self._observed, kind) + 1)
        self._observed.example = self._observed.example or example


def _spread(latencies: list[float], executions: list[float]) -> dict[str, float]:
    spread = {}
    if executions:
        spread["execution_p50"] = median(executions)
    if len(latencies) > 1:
        percentiles = quantiles(latencies, n=100, method="inclusive")
        spread |= {"p50": percentiles[49], "p99": percentiles[98]}
    elif latencies:
        spread |= {"p50": latencies[0], "p99": latencies[0]}
    return spread


def main() -> None:
    """Measure once, and print an `Observed`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("concurrency", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--reconnect", action="store_true")
    given = parser.parse_args()
    program = PROGRAMS[given.program]
    load = Load(given.port, program, given.concurrency, keep=not given.reconnect)
    with suppress(KeyboardInterrupt):
        print(asyncio.run(load.measure(given.seconds)).model_dump_json())


if __name__ == "__main__":
    main()
