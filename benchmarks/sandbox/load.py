"""The load generator, a separate process: ``python -m benchmarks.sandbox.load PORT ...``.

Keeps a number of requests in flight, checks every response, and prints its measurements as JSON.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median, quantiles

from pydantic import BaseModel

from benchmarks.sandbox.connection import Connection
from benchmarks.sandbox.observed import ObservedRuns
from benchmarks.sandbox.programs import PATIENCE, PROGRAMS, Program

WARM_UP = 8
"""Warm-up requests: afterwards files are cached and sources compiled."""

REFUSALS = (429, 503, 504)
PAUSE_AFTER_FAULT = 0.1
EXAMPLE_BYTES = 300


class Result(BaseModel):
    """The fields of a result that are checked."""

    execution_time: float | None
    stdout: str | None


class Answer(BaseModel):
    """The fields of a response that are checked."""

    status: str
    run_result: Result | None


class Load:
    """Requests of one program, a fixed number of them in flight."""

    def __init__(self, port: int, program: Program, concurrency: int, *, keep: bool) -> None:
        self._program = program
        self._bodies = program.bodies(f"{os.getpid()}-{time.time_ns()}")
        self._connections = [Connection(port, keep=keep) for _ in range(concurrency)]
        self._observed = ObservedRuns()
        self._latencies: list[float] = []
        self._executions: list[float] = []

    async def measure(self, seconds: float) -> ObservedRuns:
        """Send requests for ``seconds`` after a warm-up, and wait for those in flight."""
        left = iter(range(WARM_UP))
        await self._call_while(lambda: next(left, None) is not None)
        self._close()  # some have been idle, and the server may be about to close them
        self._observed, self._latencies, self._executions = ObservedRuns(warm_up=WARM_UP), [], []
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
    """Measure once, and print an `ObservedRuns`."""
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
