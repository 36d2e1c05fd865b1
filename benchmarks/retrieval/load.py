"""The load generator process: ``python -m benchmarks.retrieval.load PORT FILE ...``.

Keeps a number of requests in flight, checks every response, and prints its measurements as one JSON
object. FILE holds one JSON query per line.

One thread waits for all sockets, at a cost of some 50 microseconds per request; every response's
status is checked, and the rest of every sixteenth.
"""

import argparse
import itertools
import select
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

from pydantic import BaseModel, ValidationError

from benchmarks.retrieval.connection import Connection
from benchmarks.retrieval.observed import ObservedSearches

WARM_UP_SECONDS = 1.0
PATIENCE = 30.0
PAUSE_AFTER_FAULT = 0.1
TICK = 0.05
REFUSALS = (429, 503, 504)
LOOKED_INTO = 16
EXAMPLE_BYTES = 300


class Document(BaseModel):
    """The part of a passage that is checked."""

    id: str
    contents: str


class ScoredDocument(BaseModel):
    """A passage and its score."""

    document: Document
    score: float


class Answer(BaseModel):
    """A valid response."""

    result: list[list[ScoredDocument]]


class Load:
    """Requests with a fixed number of queries, a fixed number of them in flight."""

    def __init__(
        self, port: int, queries: Iterator[bytes], concurrency: int, together: int, topk: int
    ) -> None:
        self._queries, self._together, self._topk = queries, together, topk
        self._tail = b'],"topk":%d,"return_scores":true}' % topk
        self._poll = select.epoll()
        self._waiting: dict[int, Connection] = {}
        self._pausing = {Connection(port): 0.0 for _ in range(concurrency)}
        self._end = 0.0
        self._start_over()

    def measure(self, seconds: float) -> ObservedSearches:
        """Send requests for ``seconds`` after a warm-up, and wait for those in flight."""
        self._run(WARM_UP_SECONDS)
        self._start_over(warm_up=self._observed.ok)
        cpu = time.process_time()
        self._run(seconds)
        self._observed.client_cpu = time.process_time() - cpu
        self._observed.rate = self._in_time / seconds
        if self._hits:
            self._observed.hits = sum(self._hits) / len(self._hits)
        if len(self._latencies) > 1:
            percentiles = quantiles(self._latencies, n=100, method="inclusive")
            self._observed.p50, self._observed.p99 = percentiles[49], percentiles[98]
        return self._observed

    def _start_over(self, warm_up: int = 0) -> None:
        self._observed = ObservedSearches(warm_up=warm_up)
        self._latencies: list[float] = []
        self._hits: list[int] = []
        self._in_time = 0

    def _run(self, seconds: float) -> None:
        now = time.perf_counter()
        self._end = now + seconds
        while self._waiting or now < self._end:
            for connection in [one for one, until in self._pausing.items() if until <= now]:
                del self._pausing[connection]
                self._send(connection)
            looked = now
            while now - looked < TICK:
                for number, _ in self._poll.poll(TICK):
                    self._receive(self._waiting[number])
                now = time.perf_counter()
            self._give_up(now)

    def _send(self, connection: Connection) -> None:
        """Send the next request, or none once the time is over."""
        if time.perf_counter() >= self._end:
            self._pausing[connection] = 0.0
            return
        queries = list(itertools.islice(self._queries, self._together))
        try:
            connection.send(b'{"queries":[' + b",".join(queries) + self._tail, len(queries))
        except OSError as error:
            self._fault(connection, "errors", repr(error), broken=True)
        else:
            self._waiting[connection.socket.fileno()] = connection
            self._poll.register(connection.socket, select.EPOLLIN)

    def _receive(self, connection: Connection) -> None:
        try:
            answer = connection.receive()
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            self._forget(connection)
            self._fault(connection, "errors", repr(error), broken=True)
            return
        if answer is None:
            return
        self._forget(connection)
        status, body = answer
        if status != 200:
            kind = "refused" if status in REFUSALS else "errors"
            self._fault(connection, kind, f"{status} {body[:EXAMPLE_BYTES]!r}")
        elif self._is_right(body, connection.queries):
            self._count(connection)
            self._send(connection)
        else:
            self._fault(connection, "wrong", repr(body[:EXAMPLE_BYTES]))

    def _count(self, connection: Connection) -> None:
        now = time.perf_counter()
        self._observed.ok += 1
        self._latencies.append(now - connection.begun)
        if now < self._end:
            self._in_time += connection.queries

    def _is_right(self, body: bytes, queries: int) -> bool:
        if self._observed.ok % LOOKED_INTO:
            return body.startswith(b'{"result":')
        try:
            result = Answer.model_validate_json(body).result
        except ValidationError:
            return False
        self._hits.extend(map(len, result))
        return len(result) == queries and all(len(hits) <= self._topk for hits in result)

    def _give_up(self, now: float) -> None:
        for connection in [one for one in self._waiting.values() if now - one.begun > PATIENCE]:
            self._forget(connection)
            self._latencies.append(PATIENCE)
            self._fault(connection, "timed_out", "no answer", broken=True)

    def _forget(self, connection: Connection) -> None:
        self._poll.unregister(connection.socket)
        del self._waiting[connection.socket.fileno()]

    def _fault(
        self, connection: Connection, kind: str, example: str, *, broken: bool = False
    ) -> None:
        setattr(self._observed, kind, getattr(self._observed, kind) + 1)
        self._observed.example = self._observed.example or example
        # Not to hammer a server that turns requests away.
        self._pausing[connection] = time.perf_counter() + PAUSE_AFTER_FAULT
        if broken:
            connection.reconnect()


def lines_from(path: Path, skip: int) -> Iterator[bytes]:
    """Yield the queries of a file from a line on, cycling endlessly."""
    lines = path.read_bytes().splitlines()
    return itertools.islice(itertools.cycle(lines), skip % len(lines), None)


def main() -> None:
    """Measure once, and print an `ObservedSearches`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--skip", type=int, default=0, help="queries to skip")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--together", type=int, default=1, help="queries per request")
    parser.add_argument("--topk", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    queries = lines_from(given.file, given.skip)
    load = Load(given.port, queries, given.concurrency, given.together, given.topk)
    print(load.measure(given.seconds).model_dump_json())


if __name__ == "__main__":
    main()
