"""What a weight sync takes, in its parts, and against the sequence that it had before.

    python -m benchmarks.rl.weight_sync --model FOLDER [--syncs 5] [--tokens 200]

Starts a learner with full weights and a vLLM server as a training does, and syncs a changed policy
again and again: some times as it was done before, some times as the product does, in turn. Before,
each version was written into new files and read with vLLM's own reloading, and every sync had
probes of its own, which both sides scored twice, the engine each once more with what it generated.
``--tokens`` is the length of a probe. Prints medians of the seconds of the parts and the ratios of
the transport (publishing and loading) and of the whole; parts that run beside each other count
each.
"""

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from services.contracts.engine import VllmOptions
from services.contracts.training.fine_tuning import Method
from services.core.process.runtimes import find_runtime
from services.inference.token_engine.base import TurnSampling
from services.inference.token_engine.vllm import VllmTokenEngine
from services.inference.vllm.control import VllmControl
from services.trainer.rl import weight_sync
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.client import LearnerClient
from services.trainer.rl.learner.protocol import LearnerSpec
from services.trainer.rl.policy_server import PolicyEngine
from services.trainer.rl.weight_folder import weight_folder
from services.trainer.rl.weight_sync import PROBES, WeightSync
from tests.support.runtimes import FOLDER

SECONDS: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
PARTS = {
    "publish": (LearnerClient, "publish"),
    "probe": (LearnerClient, "probe"),
    "load": (VllmControl, "update"),
    "rescoring": (VllmTokenEngine, "prompt_log_probs"),
    "generating": (VllmTokenEngine, "generate_as"),
}
RENEWAL, COMPARISON = weight_sync.RENEWAL, weight_sync._differences
PUBLISH, UPDATE = LearnerClient.publish, VllmControl.update
GOAL = 0.5
CONTEXT = 1024
TRANSPORT = ("publish", "load")
WHOLE = "whole"
NOW, FORMER = "now", "former"
MODES = (FORMER, NOW, FORMER, NOW)


class Clock:
    """Records seconds of parts, under the mode of the moment."""

    mode = NOW

    def time(self, name: str, owner: Any, method: str) -> None:
        """Record the seconds of an asynchronous method of a class."""
        call: Callable[..., Awaitable[Any]] = getattr(owner, method)

        async def measured(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return await call(*given, **named)
            finally:
                self.add(name, time.perf_counter() - began)

        setattr(owner, method, measured)

    def add(self, name: str, seconds: float) -> None:
        SECONDS[name, self.mode].append(seconds)


CLOCK = Clock()
SHOWN = (*TRANSPORT, WHOLE)


async def former_differences(
    engine: VllmTokenEngine, model: str, probe: Sequence[int], expected: Sequence[float]
) -> tuple[Any, Any]:
    """The comparison as it was: the probe and its continuation are scored each by itself."""
    sampled = await engine.generate_as(model, 0, probe[:-1], TurnSampling(max_tokens=8))
    asked, again = await asyncio.gather(
        engine.prompt_log_probs(probe, model=model),
        engine.prompt_log_probs([*probe[:-1], *sampled.token_ids], model=model),
    )
    rescored = again.tokens[len(probe) - 2 :]
    return asked.tokens - np.asarray(expected), np.abs(rescored - np.asarray(sampled.log_probs))


async def former_publish(
    learner: LearnerClient, folder: Path, outdated: Path | None = None
) -> Sequence[str] | None:
    """Write new files, and delete the outdated ones."""
    names = await PUBLISH(learner, folder)
    if outdated is not None:
        shutil.rmtree(outdated)
    return names


async def former_update(control: VllmControl, folder: Path, version: int, *_: object) -> None:
    """Have vLLM load all weights."""
    arguments = {"weights_path": str(folder)}
    await control._post("/collective_rpc", {"method": "reload_weights", "kwargs": arguments})
    await control.name_version(version)


def use(mode: str) -> None:
    """Publish, load and compare as in a mode from now on."""
    former = mode == FORMER
    weight_sync.RENEWAL = 1 if former else RENEWAL
    weight_sync._differences = former_differences if former else COMPARISON
    replaced: Any = LearnerClient
    replaced.publish = former_publish if former else PUBLISH
    replaced = VllmControl
    replaced.update = former_update if former else UPDATE
    for name, (owner, method) in PARTS.items():
        if name in TRANSPORT:
            CLOCK.time(name, owner, method)
    CLOCK.mode = mode


async def measure(model: Path, syncs: int, tokens: int, dtype: Any) -> None:
    """Sync in both modes, in turn, and print."""
    draw = np.random.default_rng(0)
    for name, (owner, method) in PARTS.items():
        if name not in TRANSPORT:
            CLOCK.time(name, owner, method)
    training, vllm = (find_runtime(FOLDER, name).python for name in ("training", "vllm"))
    spec = LearnerSpec(
        model=model, socket=Path(), seed=0, method=_method(), max_response_length=4096
    )
    options = VllmOptions(max_model_len=CONTEXT, dtype=dtype)
    with tempfile.TemporaryDirectory(prefix="temper-sync-") as name:
        folder = Path(name)
        path = folder / "batch.npz"
        with weight_folder(folder, model) as published:
            async with LearnerClient(training, spec, folder) as learner:
                sync = WeightSync(learner, published)
                first = await sync.publish(0)
                print(f"weights in {published}", flush=True)
                async with PolicyEngine(vllm, first, folder, options) as engine:
                    await sync.begin(engine, 0, [[1, 2, 3]])
                    SECONDS.clear()
                    for step in range(len(MODES) * syncs):
                        if step % syncs == 0:
                            use(MODES[step // syncs])
                        _batch(draw).save(path)
                        probes = draw.integers(0, 64, (PROBES, tokens)).tolist()
                        began = time.perf_counter()
                        await sync.before_update(probes)
                        scoring = time.perf_counter() - began
                        await learner.update(step, path)
                        began = time.perf_counter()
                        await sync.load(engine, step + 1)
                        CLOCK.add(WHOLE, scoring + time.perf_counter() - began)
                        last = {name: SECONDS[name, CLOCK.mode][-1] for name in SHOWN}
                        shown = ", ".join(f"{name} {each:.2f}" for name, each in last.items())
                        print(f"{CLOCK.mode}: {shown} s", flush=True)
    report()


def report() -> None:
    """Print what both modes took, and the ratios."""
    for name in PARTS:
        now, former = (SECONDS[name, mode] for mode in (NOW, FORMER))
        syncs = {mode: len(SECONDS[WHOLE, mode]) for mode in (NOW, FORMER)}
        means = [sum(now) / syncs[NOW], sum(former) / syncs[FORMER]]
        shown = f"{means[0]:7.2f} s a sync now, {means[1]:7.2f} s before"
        print(f"{name:>10}: {shown} ({len(now)} and {len(former)} calls)")
    for name, parts in (("transport", TRANSPORT), (WHOLE, (WHOLE,))):
        took, before = (
            sum(statistics.median(SECONDS[part, mode]) for part in parts) for mode in (NOW, FORMER)
        )
        print(f"{name}: median {took:.2f} s now, {before:.2f} s before: {took / before:.2f}")
    print(f"goal {GOAL}")


def _batch(draw: np.random.Generator) -> TrainingBatch:
    mask = np.arange(32) >= 16
    return TrainingBatch(
        tuple(
            TrainingSequence(
                token_ids=draw.integers(0, 64, 32).astype(np.int32),
                mask=mask,
                sampler_log_probs=np.full(32, -5.0, np.float32),
                policy_versions=np.where(mask, 0, -1).astype(np.int32),
                reward=float(number % 2),
                group=0,
            )
            for number in range(4)
        )
    )


def _method() -> Method:
    reward = {"name": "any", "reward": {"type": "retool"}}
    method = {
        "rewards": [reward],
        "hyperparameters": {"optimizer": {"learning_rate": 1e-5}},
    }
    return Method.model_validate({"type": "reinforcement", "reinforcement": method})


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rl.weight_sync", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--syncs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200, help="of each probe")
    parser.add_argument("--dtype", default="auto", help="of the engine")
    given = parser.parse_args()
    asyncio.run(measure(given.model, given.syncs, given.tokens, given.dtype))


if __name__ == "__main__":
    main()
