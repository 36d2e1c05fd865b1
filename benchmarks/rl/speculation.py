"""What drafts save: tokens per second of one engine, without and with them.

    python -m benchmarks.rl.speculation --model FOLDER [--method suffix] [--concurrency 1 8]
                                        [--rounds 2]

Starts a vLLM server with drafts, as an online training does, and switches them off and on, round by
round, for two tasks: one that repeats its prompt (a text to be copied) and one that does not (a
story). FOLDER is a chat model. Every round samples the same prompts at temperature 1. Prints tokens
per second, their ratio, tokens per forward pass, the share of drafted tokens that were accepted,
and for n-gram drafts what the replay of the tokens that were sampled without drafts foretells.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.contracts.engine import Drafts, VllmOptions
from services.core.artifacts import ModelSource
from services.core.process.runtimes import find_runtime
from services.inference.token_engine.base import TurnSampling
from services.inference.token_engine.vllm import VllmTokenEngine
from services.inference.vllm.control import VllmControl
from services.inference.vllm.counters import EngineCounters
from services.inference.vllm.launch import Routes
from services.inference.vllm.server import VllmServer
from services.rollouts.chat import open_chat_tokens
from services.trainer.rl.speculation import Replay
from tests.support.runtimes import FOLDER

NAME = "policy"
TOKENS = 160
"""Tokens of an answer at most."""
THINGS = ("a lamp", "a river", "an old train", "two foxes", "a bridge", "a violin", "rain", "a map")
TEXT = (
    "Receipt of {thing}: item {number} of 9 was weighed, counted and stored on the second shelf. "
    "The keeper signed for it in blue ink, and noted that {thing} must not be moved before noon. "
    "A clerk who moves {thing} before noon signs for it in red ink, and tells the keeper at once."
)
TASKS = {
    "copies": "Copy the following text exactly, and write nothing else:\n\n" + TEXT,
    "stories": "Write a short story about {thing}, number {number} of 9.",
}


@dataclass
class Arm:
    """What was sampled without drafts, or with them."""

    seconds: float = 0.0
    counted: EngineCounters = field(default_factory=EngineCounters)
    replay: Replay = field(default_factory=Replay)

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.counted.generated / self.seconds


@dataclass(frozen=True)
class Sampler:
    """An engine, and how a round is sampled from it."""

    engine: VllmTokenEngine
    control: VllmControl
    stops: tuple[int, ...]
    drafts: Drafts

    async def round(self, prompts: Sequence[list[int]], concurrency: int, arm: Arm) -> None:
        """Sample an answer to each prompt, so many at once."""
        free = asyncio.Semaphore(concurrency)

        async def answer(number: int, prompt: list[int]) -> None:
            sampling = TurnSampling(max_tokens=TOKENS, stop_token_ids=self.stops, seed=number)
            async with free:
                turn = await self.engine.generate(prompt, sampling)
            arm.replay.add(self.drafts, prompt, turn.token_ids, [True] * len(turn.token_ids))

        before, began = await self.control.counters(), time.perf_counter()
        await asyncio.gather(*[answer(number, each) for number, each in enumerate(prompts)])
        arm.seconds += time.perf_counter() - began
        arm.counted += (await self.control.counters()).since(before)


async def measure(model: Path, drafts: Drafts, concurrencies: Sequence[int], rounds: int) -> None:
    """Start the engine, measure and print."""
    chat = open_chat_tokens(model, {})
    runtime = find_runtime(FOLDER, "vllm")
    options = VllmOptions(max_model_len=1024, speculation=drafts)
    with tempfile.TemporaryDirectory(prefix="temper-speculation-") as folder:
        server = VllmServer(
            runtime.python,
            ModelSource(path=model),
            NAME,
            [],
            Path(folder),
            options,
            routes=Routes(tokens=True, weights=True),
        )
        async with (
            server,
            VllmTokenEngine(server.base_url, server.api_key, NAME) as engine,
            VllmControl(server.base_url, server.api_key) as control,
        ):
            sampler = Sampler(engine, control, tuple(chat.stop_token_ids), drafts)
            print("task     at once  tokens/s  with drafts  ratio  per pass  accepted  foretold")
            for task, text in TASKS.items():
                asked = [text.format(thing=x, number=n) for n, x in enumerate(THINGS, 1)]
                prompts = [chat.prompt([{"role": "user", "content": each}], ()) for each in asked]
                await sampler.round(prompts, max(concurrencies), Arm())  # warms up
                for concurrency in concurrencies:
                    await compare(sampler, task, prompts, concurrency, rounds)


async def compare(
    sampler: Sampler, task: str, prompts: Sequence[list[int]], concurrency: int, rounds: int
) -> None:
    """Measure a task without and with drafts in turn, and print a line."""
    arms = {False: Arm(), True: Arm()}
    for drafts in (False, True, True, False) * rounds:
        await sampler.control.draft(on=drafts)
        await sampler.round(prompts, concurrency, arms[drafts])
    without, with_drafts = arms[False], arms[True]
    counted = with_drafts.counted
    foretold = f"{without.replay.accepted_length:9.2f}" if sampler.drafts.method == "ngram" else ""
    print(
        f"{task:8} {concurrency:7} {without.rate:9.1f} {with_drafts.rate:12.1f} "
        f"{with_drafts.rate / without.rate:6.2f} {counted.accepted_length:9.2f} "
        f"{counted.acceptance_rate:9.2f} {foretold}",
        flush=True,
    )


def main() -> None:
    """Measure the model of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--method", choices=("ngram", "suffix"), default="ngram")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    drafts = Drafts(method=arguments.method)
    asyncio.run(measure(arguments.model, drafts, arguments.concurrency, arguments.rounds))


if __name__ == "__main__":
    main()
