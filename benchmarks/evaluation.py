"""Throughput of the evaluation child relative to a minimal client.

Against the same mock server in the same run, compares the child (reading samples, requests,
grading, durable rows, reports) with a minimal client: a loop over keep-alive sockets that writes a
request and parses its JSON response. Client and server have a core each.

    python benchmarks/evaluation.py [--rounds 3]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.contracts.rewards.graders import NumericGrader
from services.contracts.sampling import Sampling
from services.core.process.reporter import RESULT
from services.evaluator.evaluation.spec import SPEC, BenchmarkSpec, EvaluationSpec
from services.evaluator.serving import RemoteEndpoint

REPOSITORY = Path(__file__).parents[1]
CLIENT_CORE, SERVER_CORE = 0, 1
CASES = [(0.0, 64, 6000), (0.1, 512, 6000)]
"""Server latency in seconds, requests in flight, samples."""

COMPLETION = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The answer is 42."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
    }
).encode()
HEAD_END = b"\r\n\r\n"


class MockServer(asyncio.Protocol):
    """Sends every request the same response after a fixed delay, with minimal HTTP."""

    response = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
        + str(len(COMPLETION)).encode()
        + HEAD_END
        + COMPLETION
    )

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        self._received += data
        while (head := self._received.find(HEAD_END)) >= 0:
            end = head + len(HEAD_END) + _content_length(self._received[:head])
            if len(self._received) < end:
                return
            self._received = self._received[end:]
            if self._latency:
                loop = asyncio.get_running_loop()
                loop.call_later(self._latency, self._transport.write, self.response)
            else:
                self._transport.write(self.response)


async def serve(latency: float) -> None:
    """Print the port, then serve until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: MockServer(latency), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def raw_loop(port: int, concurrency: int, samples: int) -> float:
    """Return the minimal client's requests per second."""
    payload = {"model": "mock", "messages": [{"role": "user", "content": "What is 40+2?"}]}
    numbers = iter(range(samples))

    async def ask_all() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in numbers:
            body = json.dumps(payload | Sampling().model_dump(exclude_none=True)).encode()
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: {len(body)}"
            )
            writer.write(head.encode() + HEAD_END + body)
            length = _content_length(await reader.readuntil(HEAD_END))
            json.loads(await reader.readexactly(length))
        writer.close()
        await writer.wait_closed()

    begun = time.perf_counter()
    await asyncio.gather(*(ask_all() for _ in range(concurrency)))
    return samples / (time.perf_counter() - begun)


def run_child(port: int, concurrency: int, samples: int) -> float:
    """Return the child's samples per second, without its startup."""
    with tempfile.TemporaryDirectory() as folder:
        job_dir = Path(folder)
        file = job_dir / "samples.jsonl"
        row = json.dumps({"prompt": "What is 40+2?", "gold": "42"})
        file.write_text(f"{row}\n" * samples)
        spec = EvaluationSpec(
            model=RemoteEndpoint.model_validate(
                {"base_url": f"http://127.0.0.1:{port}/v1", "model": "mock"}
            ),
            benchmarks=[BenchmarkSpec(samples=file, grader=NumericGrader(), sampling=Sampling())],
            max_concurrency=concurrency,
        )
        (job_dir / SPEC).write_text(spec.model_dump_json())
        module = "services.evaluator.evaluation.child"
        subprocess.run(
            [sys.executable, "-m", module, folder], cwd=REPOSITORY, check=True, timeout=600
        )
        metrics = json.loads((job_dir / RESULT).read_bytes())["metrics"]
    assert metrics["correct"] == samples
    rate: float = samples / metrics["generation_seconds"]
    return rate


@contextmanager
def mock_server(latency: float) -> Iterator[int]:
    """Run a mock server on its own core; yield its port."""
    command = [sys.executable, __file__, "--serve", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        os.sched_setaffinity(process.pid, {SERVER_CORE})
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def compare(rounds: int) -> None:
    """Print one line per case: medians over alternating rounds."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    print(f"{'latency':>8} {'concurrent':>10} {'raw/s':>8} {'child/s':>8} {'ratio':>6}")
    for latency, concurrency, samples in CASES:
        raw, child = [], []
        with mock_server(latency) as port:
            for _ in range(rounds):
                raw.append(asyncio.run(raw_loop(port, concurrency, samples)))
                child.append(run_child(port, concurrency, samples))
        fastest, ours = statistics.median(raw), statistics.median(child)
        print(
            f"{latency * 1000:>5.0f} ms {concurrency:>10} {fastest:>8.0f} {ours:>8.0f}"
            f" {ours / fastest:>6.2f}"
        )


def _content_length(head: bytes) -> int:
    _, _, after = head.lower().partition(b"content-length:")
    return int(after.partition(b"\r\n")[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=float, metavar="LATENCY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        asyncio.run(serve(arguments.serve))
    else:
        compare(arguments.rounds)
