"""Overhead of the gateway for streamed chat completions: tokens per second, and time to first
token.

Time to first token is measured for a single request, for one next to 64 streams, and for 64
concurrent requests.

The same requests go directly to an engine and through a real gateway and relay, alternating, so
that other load on the machine affects both alike. The engine is a stub in its own process that
writes one token per stream every STEP milliseconds. Run from the repository root:

    python -m benchmarks.chat [--step 25] [--tokens 100] [--rounds 5]
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from services.contracts.models.registered import RegisterModel
from services.core.artifacts import Artifacts
from services.evaluator.serve.activity import Activity
from services.evaluator.serve.adapters import Adapters
from services.evaluator.serve.engine import ServedEngine
from services.inference.relay import Destination, Relay
from services.inference.relay_protocol import RelayEndpoint, publish_endpoint
from services.inference.vllm.control import VllmControl
from temper import Temper
from tests.support.engines.serving_worker import ServingWorker
from tests.support.models.tiny_model import make_tiny_model
from tests.support.processes import running_gateway
from tests.support.threaded_server import LoopThread

AT_ONCE = 64
ALONE = 40
MODEL = "base"
SECONDS = 300.0
CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 0,
    "model": MODEL,
    "choices": [{"index": 0, "delta": {"content": " token"}, "finish_reason": None}],
}


@dataclass(frozen=True)
class Answer:
    """A streamed answer: seconds to its first token, and its number of tokens."""

    first: float
    tokens: int


@dataclass(frozen=True)
class Round:
    """Concurrent answers: tokens per second, and the median time to first token."""

    rate: float
    first: float


async def stream(session: aiohttp.ClientSession, url: str, tokens: int) -> Answer:
    """Request one answer and read it to its end."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "12+30="}],
        "stream": True,
        "max_tokens": tokens,
    }
    begun, first, seen = time.perf_counter(), 0.0, 0
    async with session.post(f"{url}/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: {"):
                first = first or time.perf_counter() - begun
                seen += 1
    if seen != tokens:
        raise SystemExit(f"{seen} of {tokens} tokens arrived from {url}")
    return Answer(first, seen)


async def ask(url: str, tokens: int, at_once: int, times: int = 1) -> Round:
    """Send ``at_once`` concurrent requests, ``times`` times."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    begun = time.perf_counter()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        answers: list[Answer] = []
        for _ in range(times):
            streams = (stream(session, url, tokens) for _ in range(at_once))
            answers += await asyncio.gather(*streams)
    elapsed = time.perf_counter() - begun
    first = statistics.median(answer.first for answer in answers)
    return Round(sum(answer.tokens for answer in answers) / elapsed, first)


async def ask_beside(url: str, tokens: int) -> Round:
    """Request one token repeatedly while ``AT_ONCE`` streams are running."""
    crowd = asyncio.create_task(ask(url, tokens, AT_ONCE))
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        await stream(session, url, tokens // 4)  # by then the other streams are running
        answers = []
        while not crowd.done():
            answers.append(await stream(session, url, 1))
    await crowd
    # The last may have had company no longer.
    return Round(0, statistics.median(answer.first for answer in answers[:-1]))


def compare(direct: str, through: str, tokens: int, rounds: int) -> None:
    """Time both, alternating; print their medians over the rounds."""
    urls = (direct, through)
    for url in urls:
        asyncio.run(ask(url, tokens, AT_ONCE))
    crowded = [[asyncio.run(ask(url, tokens, AT_ONCE)) for url in urls] for _ in range(rounds)]
    alone = [[asyncio.run(ask(url, 1, 1, ALONE)) for url in urls] for _ in range(rounds)]
    beside = [[asyncio.run(ask_beside(url, tokens)) for url in urls] for _ in range(rounds)]
    rates = [statistics.median(row[side].rate for row in crowded) for side in (0, 1)]
    print(f"{'':<34}{'direct':>9}{'gateway':>9}")
    print(f"{f'tokens/s, {AT_ONCE} streams':<34}{rates[0]:>9.0f}{rates[1]:>9.0f}", end="")
    print(f"   ratio {rates[1] / rates[0]:.2f}")
    for name, measured in (
        ("first token, alone", alone),
        (f"first token, beside {AT_ONCE}", beside),
        (f"first token, {AT_ONCE} at once", crowded),
    ):
        first = [1e3 * statistics.median(row[side].first for row in measured) for side in (0, 1)]
        print(f"{name + ', ms':<34}{first[0]:>9.1f}{first[1]:>9.1f}", end="")
        print(f"   added {first[1] - first[0]:.1f}")


async def serve_engine(step: float) -> None:
    """Run the stub engine; print its port."""
    event = f"data: {json.dumps(CHUNK, separators=(',', ':'))}\n\n".encode()

    async def chat(request: web.Request) -> web.StreamResponse:
        tokens = (await request.json())["max_tokens"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for token in range(tokens):
            await asyncio.sleep(begun + token * step - loop.time())
            await response.write(event)
        await response.write(b"data: [DONE]\n\n")
        return response

    application = web.Application()
    application.add_routes([web.post("/v1/chat/completions", chat)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


async def serve_relay(home: Path, engine: str) -> None:
    """Run the relay of the next requested serving, as its child process does."""
    worker = ServingWorker(home, LoopThread())
    print("ready", flush=True)
    job = (await asyncio.to_thread(worker.claim_next)).job
    links = Artifacts(home).job(job.id) / "adapters"
    async with (
        VllmControl(f"{engine}/v1", "key") as control,
        Relay(
            ServedEngine(Destination(engine, "key"), Adapters(control, None, links), Activity()),
            "127.0.0.1",
        ) as relay,
    ):
        endpoint = RelayEndpoint(epoch=job.epoch, url=relay.url, secret=relay.secret)
        publish_endpoint(Artifacts(home).job(job.id), endpoint)
        await asyncio.Event().wait()


@contextlib.contextmanager
def running_part(*arguments: str) -> Iterator[str]:
    """Run a part of this benchmark in its own process; yield its first line of output."""
    command = [sys.executable, "-m", "benchmarks.chat", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main(step: float, tokens: int, rounds: int) -> None:
    """Run the benchmark."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "home"
        make_tiny_model(home / "models" / MODEL)
        port = stack.enter_context(running_part("--engine", "--step", str(step)))
        engine = f"http://127.0.0.1:{port}"
        settings = {"TEMPER_HOME": str(home)}
        gateway = stack.enter_context(running_gateway(settings, home.parent / "gateway.log"))
        with Temper(gateway) as temper:
            temper.models.register(RegisterModel(id=MODEL, folder=MODEL))
        stack.enter_context(running_part("--relay", str(home), engine))
        compare(engine, gateway, tokens, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--step", type=float, default=25.0, help="milliseconds between tokens")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--relay", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        asyncio.run(serve_engine(given.step / 1e3))
    elif given.relay:
        asyncio.run(serve_relay(Path(given.relay[0]), given.relay[1]))
    else:
        main(given.step, given.tokens, given.rounds)
