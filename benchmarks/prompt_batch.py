"""Throughput of a prompt batch compared with a bare aiohttp loop and a threaded script.

Against the same mock server in the same run, compares `temper batch` (reading records, rendering,
requests, durable rows, output) with tasks that post one body and parse the response, and with two
processes of threads that use `requests`. Client and server have a core each.

    python -m benchmarks.prompt_batch [--rounds 3] [--requests 20000]
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
import uvloop

from benchmarks.batch_commands import ask_by_threads
from benchmarks.evaluation import CASES, CLIENT_CORE, mock_server
from services.contracts.batches.prompt_batches import (
    PromptBatch,
    PromptEndpoint,
    Prompting,
    rows_folder,
)
from services.evaluator.prompts.run import answer

TEMPLATE = 'system_prompt: "What is {{ left }}+{{ right }}?"'


async def bare_loop(base_url: str, concurrency: int, requests: int) -> float:
    """Return requests per second of aiohttp without rows."""
    message = {"role": "user", "content": "What is 40+2?"}
    body = {"model": "mock", "messages": [message], "temperature": 0.8, "max_tokens": 8000}
    numbers = iter(range(requests))

    async def ask_all(session: aiohttp.ClientSession) -> None:
        for _ in numbers:
            async with session.post(f"{base_url}/chat/completions", json=body) as response:
                json.loads(await response.read())

    begun = time.perf_counter()
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(ask_all(session) for _ in range(concurrency)))
    return requests / (time.perf_counter() - begun)


def batch(base_url: str, concurrency: int, requests: int) -> float:
    """Return records per second of a prompt batch, including its output."""
    with tempfile.TemporaryDirectory() as name:
        records, template = Path(name) / "records.jsonl", Path(name) / "prompt.yaml"
        records.write_text('{"left": 40, "right": 2}\n' * requests)
        template.write_text(TEMPLATE)
        request = PromptBatch(
            records=records,
            output=Path(name) / "out.json",
            prompting=Prompting(template=template),
            endpoints=[PromptEndpoint(base_url=base_url, model="mock")],
            body={"temperature": 0.8, "max_tokens": 8000},
            concurrency=concurrency,
        )
        folder = rows_folder(request.output)
        folder.mkdir()
        begun = time.perf_counter()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            summary = runner.run(answer(request, folder, failed_again=False, environment={}))
        elapsed = time.perf_counter() - begun
    assert summary.startswith(f"{requests:,} answered, 0 failed")
    return requests / elapsed


def script(port: int, concurrency: int, requests: int) -> float:
    """Return requests per second of the threaded script."""
    begun = time.perf_counter()
    ask_by_threads([{"left": 40, "right": 2}] * requests, port, concurrency)
    return requests / (time.perf_counter() - begun)


def compare(rounds: int, requests: int) -> None:
    """Print one line per case: medians over alternating rounds."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    print(
        f"{'latency':>8} {'concurrent':>10} {'bare/s':>8} {'batch/s':>8} {'ratio':>6}"
        f" {'script/s':>8} {'ratio':>6}"
    )
    for latency, concurrency, _ in CASES:
        rates: dict[str, list[float]] = {"bare": [], "batch": [], "script": []}
        with mock_server(latency) as port:
            base_url = f"http://127.0.0.1:{port}/v1"
            for _ in range(rounds):
                rates["bare"].append(asyncio.run(bare_loop(base_url, concurrency, requests)))
                rates["batch"].append(batch(base_url, concurrency, requests))
                # A tenth suffices: it is slow and needs no warm-up.
                rates["script"].append(script(port, concurrency, requests // 10))
        bare, ours, threads = (statistics.median(each) for each in rates.values())
        print(
            f"{latency * 1000:>5.0f} ms {concurrency:>10} {bare:>8.0f} {ours:>8.0f}"
            f" {ours / bare:>6.2f} {threads:>8.0f} {ours / threads:>6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20_000)
    given = parser.parse_args()
    compare(given.rounds, given.requests)
