"""What a weight sync takes, in its parts, and against the sequence that it had before.

    python -m benchmarks.rl.weight_sync --model FOLDER [--syncs 5] [--tokens 200] [--gpus 0,1]

Starts a learner with full weights and a vLLM server as a training does, and syncs a changed policy
again and again: some times as it was done before, some times as the product does, in turn. Before,
each version was written into new files and read with vLLM's own reloading, and every sync had
probes of its own, which both sides scored twice, the engine each once more with what it generated.
``--tokens`` is the length of a probe. Prints means of the parts (those that run concurrently
count each), and ratios of medians of the transport, which is publishing and loading, and of the
whole: in seconds and in the processor time of learner and engine, which other programs change less.

With ``--gpus`` the learner is on the first and the engine on the others, or on the same: weights
are then sent by NCCL or CUDA IPC, as the first line says, and published after that, beside
rollouts.
"""

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from services.contracts.engine import VllmOptions
from services.contracts.training.fine_tuning import Method
from services.core.process.runtimes import find_runtime
from services.inference.token_engine.base import TurnSampling
from services.inference.token_engine.vllm import VllmTokenEngine
from services.inference.vllm.control import VllmControl
from services.trainer.rl import weight_sync
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.direct import DirectTransport, Transport
from services.trainer.rl.learner.client import LearnerClient
from services.trainer.rl.learner.protocol import LearnerSpec
from services.trainer.rl.policy_server import PolicyEngine, handle, server
from services.trainer.rl.policy_server.placement import Devices, transport_of
from services.trainer.rl.weight_folder import weight_folder
from services.trainer.rl.weight_sync import PROBES, Difference, LogprobReference, WeightSync
from tests.support.runtimes import FOLDER

SECONDS: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
CPU: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
PARTS = {
    "publish": (LearnerClient, "publish"),
    "probe": (LearnerClient, "probe"),
    "load": (VllmControl, "update"),
    "send": (DirectTransport, "send"),
    "rescoring": (VllmTokenEngine, "prompt_log_probs"),
    "generating": (VllmTokenEngine, "generate_as"),
}
RENEWAL = weight_sync.RENEWAL
COMPARISON, PREFILL = weight_sync.compare, weight_sync.prefill
PUBLISH, UPDATE = LearnerClient.publish, VllmControl.update
GOAL = 0.5
ENGINE_MEMORY = 0.3
"""Share of a GPU that the engine takes, which may be the learner's."""
CONTEXT = 1024
TRANSPORT = ("publish", "load")
DIRECT = ("send",)
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
            began, used = time.perf_counter(), cpu_seconds()
            try:
                return await call(*given, **named)
            finally:
                self.add(name, time.perf_counter() - began, cpu_seconds() - used)

        setattr(owner, method, measured)

    def add(self, name: str, seconds: float, cpu: float) -> None:
        SECONDS[name, self.mode].append(seconds)
        CPU[name, self.mode].append(cpu)


def cpu_seconds() -> float:
    """Processor time that the learner and the engine have used."""
    used = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system
    return used


CLOCK = Clock()
SHOWN = (*TRANSPORT, *DIRECT, WHOLE)


async def former_scored(
    engine: VllmTokenEngine, model: str, probe: Sequence[int]
) -> tuple[Any, Any]:
    """The comparison as it was: a probe and its continuation are scored each by itself."""
    sampled = await engine.generate_as(model, 0, probe[:-1], TurnSampling(max_tokens=8))
    asked, again = await asyncio.gather(
        engine.prompt_log_probs(probe, model=model),
        engine.prompt_log_probs([*probe[:-1], *sampled.token_ids], model=model),
    )
    rescored = again.tokens[len(probe) - 2 :]
    return asked.tokens, np.abs(rescored - np.asarray(sampled.log_probs))


async def former_compare(
    engine: VllmTokenEngine, model: str, reference: LogprobReference, _before: Any = None
) -> tuple[Difference, Any]:
    """Compare all probes as they were compared."""
    parts = [former_scored(engine, model, probe) for probe in reference.token_ids]
    found, generated = (
        np.concatenate(kind) for kind in zip(*await asyncio.gather(*parts), strict=True)
    )
    gaps = [np.abs(found - np.concatenate(reference.log_probs)), generated]
    mean, largest = (max(float(measure(each)) for each in gaps) for measure in (np.mean, np.max))
    return Difference(mean, largest), found


async def former_prefill(engine: VllmTokenEngine, model: str, reference: LogprobReference) -> None:
    """Put all probes into the prefix cache."""
    sampling = TurnSampling(max_tokens=1)
    works = [engine.generate_as(model, 0, probe, sampling) for probe in reference.token_ids]
    await asyncio.gather(*works)


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


def use(mode: str, direct: DirectTransport, transport: Transport) -> None:
    """Publish, load and compare as in a mode from now on."""
    former = mode == FORMER
    direct._failed = former or transport is Transport.FILES
    weight_sync.RENEWAL = 1 if former else RENEWAL
    modules: Any = (server, handle)
    modules[0].compare = former_compare if former else COMPARISON
    modules[1].prefill = former_prefill if former else PREFILL
    replaced: Any = LearnerClient
    replaced.publish = former_publish if former else PUBLISH
    replaced = VllmControl
    replaced.update = former_update if former else UPDATE
    for name, (owner, method) in PARTS.items():
        if name in TRANSPORT:
            CLOCK.time(name, owner, method)
    CLOCK.mode = mode


async def measure(model: Path, syncs: int, tokens: int, dtype: Any, gpus: Sequence[str]) -> None:
    """Sync in both modes, in turn, and print."""
    draw = np.random.default_rng(0)
    for name, (owner, method) in PARTS.items():
        if name not in TRANSPORT:
            CLOCK.time(name, owner, method)
    training, vllm = (find_runtime(FOLDER, name).python for name in ("training", "vllm"))
    spec = LearnerSpec(
        model=model, socket=Path(), seed=0, method=_method(), max_response_length=4096
    )
    options = VllmOptions(max_model_len=CONTEXT, dtype=dtype, gpu_memory_utilization=ENGINE_MEMORY)
    engines = (tuple(gpus[1:] or gpus),) if gpus else None
    devices = Devices(tuple(gpus[:1]), engines)
    settings = spec.settings.optimizer
    transport = transport_of(devices, settings)
    with tempfile.TemporaryDirectory(prefix="temper-sync-") as name:
        folder = Path(name)
        path = folder / "batch.npz"
        with weight_folder(folder, model) as published:
            async with LearnerClient(training, spec, folder, devices.trainer) as learner:
                direct = DirectTransport(learner, transport, print)
                sync = WeightSync(learner, published, direct)
                first = await sync.publish(0)
                print(f"weights by {transport}, in {published}", flush=True)
                async with PolicyEngine(
                    vllm,
                    first,
                    folder,
                    options,
                    devices=engines,
                    direct=direct,
                    prepare=sync.publish,
                ) as engine:
                    await sync.begin(engine, 0, [[1, 2, 3]])
                    SECONDS.clear()
                    CPU.clear()
                    for step in range(len(MODES) * syncs):
                        if step % syncs == 0:
                            use(MODES[step // syncs], direct, transport)
                        _batch(draw).save(path)
                        probes = draw.integers(0, 64, (PROBES, tokens)).tolist()
                        began, used = time.perf_counter(), cpu_seconds()
                        await sync.before_update(probes)
                        scoring, scored = time.perf_counter() - began, cpu_seconds() - used
                        await learner.update(step, path)
                        began, used = time.perf_counter(), cpu_seconds()
                        await sync.load(engine, step + 1)
                        seconds = scoring + time.perf_counter() - began
                        CLOCK.add(WHOLE, seconds, scored + cpu_seconds() - used)
                        given = ((name, SECONDS[name, CLOCK.mode]) for name in SHOWN)
                        shown = ", ".join(f"{name} {each[-1]:.2f}" for name, each in given if each)
                        print(f"{CLOCK.mode}: {shown} s", flush=True)
    report(TRANSPORT if transport is Transport.FILES else DIRECT)


def report(transport: Sequence[str]) -> None:
    """Print what both modes took, and the ratios."""
    for name in PARTS:
        now, former = (SECONDS[name, mode] for mode in (NOW, FORMER))
        syncs = {mode: len(SECONDS[WHOLE, mode]) for mode in (NOW, FORMER)}
        means = [sum(now) / syncs[NOW], sum(former) / syncs[FORMER]]
        shown = f"{means[0]:7.2f} s a sync now, {means[1]:7.2f} s before"
        print(f"{name:>10}: {shown} ({len(now)} and {len(former)} calls)")
    for name, parts, former_parts in (
        ("transport", transport, TRANSPORT),
        (WHOLE, (WHOLE,), (WHOLE,)),
    ):
        for unit, measured in (("s", SECONDS), ("CPU s", CPU)):
            took = sum(statistics.median(measured[part, NOW]) for part in parts)
            before = sum(statistics.median(measured[part, FORMER]) for part in former_parts)
            print(f"{name}: {took:.2f} {unit} now, {before:.2f} before: {took / before:.2f}")
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
    parser.add_argument("--gpus", default="", help="by index; default: none")
    given = parser.parse_args()
    gpus = [each for each in given.gpus.split(",") if each]
    asyncio.run(measure(given.model, given.syncs, given.tokens, given.dtype, gpus))


if __name__ == "__main__":
    main()
