"""Overhead of the multi-turn loop relative to the engine and the tools.

Runs conversations whose turns and tool latencies are drawn beforehand, all in one run, and prints
ratios: against the minimum time given by latencies and model, against a loop in which all
conversations wait for the slowest tool each turn, against the engine's completions alone, and our
CPU time per turn. Run from the repository root:

    python -m benchmarks.rollouts
    python -m benchmarks.rollouts --vllm   # also with a vLLM server and a tiny model
"""

import argparse
import asyncio
import platform
import tempfile
from pathlib import Path

import psutil

from benchmarks.rollouts import cost, overlap, served
from benchmarks.rollouts.engines import FixedRate
from benchmarks.rollouts.runner import Stage
from services.rollouts.chat import open_chat_tokens
from tests.support.chat_templates.families import FAMILIES

SEQUENCE_TOKENS_PER_SECOND = 100.0
OVERLAPPED, COSTED = 64, 256
"""In flight."""


def main() -> None:
    """Run the benchmark."""
    given = _arguments()
    print(
        f"{psutil.cpu_count()} processors, load {psutil.getloadavg()[0]:.1f},"
        f" Python {platform.python_version()}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="temper-rollouts-") as scratch:
        asyncio.run(_measure(given, Path(scratch)))


async def _measure(given: argparse.Namespace, scratch: Path) -> None:
    tokenizer = FAMILIES["qwen2_5"].write(scratch)
    chat, records = open_chat_tokens(tokenizer), scratch / "trajectories.jsonl"
    await overlap.measure(Stage(chat, tokenizer, OVERLAPPED, records), given.conversations)
    costed = Stage(chat, tokenizer, COSTED, records)
    await cost.measure(
        costed,
        4 * COSTED,
        FixedRate(SEQUENCE_TOKENS_PER_SECOND),
        f"engine of {SEQUENCE_TOKENS_PER_SECOND:.0f} tokens/s a sequence",
    )
    await cost.measure_cpu(costed, 4 * COSTED)
    if given.vllm:
        await served.measure(scratch / "vllm", COSTED)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rollouts", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--conversations", type=int, default=2048, help="number run with drawn latencies"
    )
    parser.add_argument(
        "--vllm", action="store_true", help="measure with a vLLM server too (a minute more)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
