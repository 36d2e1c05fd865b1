"""How far learner and engine agree, token by token, as rounded by default and with
``exact_on_policy``.

    python -m benchmarks.rl.exactness [--model FOLDER] [--tokens 1000000] [--default]

Starts a learner and a vLLM server as a training does. In rounds, concurrent sequences of many
lengths are sampled and scored by the learner; after some rounds the weights are trained on
the last of them and synced. Prints how many sampled tokens differ, the mean and the largest
difference, and tokens per second of both sides. ``--default`` measures the arithmetic without
``exact_on_policy``. Without a model, a tiny one is made.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rl.overlap import made_model
from services.contracts.engine import VllmOptions
from services.contracts.training.fine_tuning import Method
from services.core.process.runtimes import find_runtime
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.client import LearnerClient
from services.trainer.rl.learner.protocol import LearnerSpec
from services.trainer.rl.policy_server import PolicyEngine
from services.trainer.rl.weight_sync import WeightSync
from tests.support.runtimes import FOLDER

GROUP = 4
LEARNING_RATE = 1e-4
LARGE_CONTEXT = 1024


@dataclass
class Agreement:
    """Differences of log-probabilities over all sampled tokens so far, in nats."""

    tokens: int = 0
    differing: int = 0
    total: float = 0.0
    largest: float = 0.0
    sampling: float = 0.0
    scoring: float = 0.0
    updates: int = 0

    def add(self, own: NDArray[np.float32], sampler: NDArray[np.float32]) -> None:
        differences = np.abs(own.astype(np.float64) - sampler)
        self.tokens += len(differences)
        self.differing += int((differences != 0.0).sum())
        self.total += float(differences.sum())
        self.largest = max(self.largest, float(differences.max()))

    def __str__(self) -> str:
        return (
            f"{self.differing:,} of {self.tokens:,} sampled tokens differ; mean "
            f"{self.total / max(1, self.tokens):.3g}, largest {self.largest:.3g} nats; "
            f"{self.updates} updates; {self.tokens / self.sampling:,.0f} tokens/s sampled, "
            f"{self.tokens / self.scoring:,.0f} scored"
        )


async def measure(model: Path, options: argparse.Namespace) -> Agreement:
    """Sample, score and train until there are enough tokens."""
    exact = not options.default
    training, vllm = (find_runtime(FOLDER, name).python for name in ("training", "vllm"))
    spec = LearnerSpec(
        model=model, socket=Path(), seed=0, method=_method(exact=exact), max_response_length=4096
    )
    engine_options = VllmOptions(dtype="float32", max_model_len=LARGE_CONTEXT, max_num_seqs=256)
    draw = np.random.default_rng(options.seed)
    agreement = Agreement()
    with tempfile.TemporaryDirectory(prefix="temper-exactness-") as name:
        folder = Path(name)
        async with LearnerClient(training, spec, folder) as learner:
            sync = WeightSync(learner, folder / "weights")
            first = await sync.publish(0)
            async with PolicyEngine(vllm, first, folder, engine_options, exact=exact) as engine:
                while agreement.tokens < options.tokens:
                    batch = await _round(engine, learner, draw, options, agreement)
                    print(agreement, flush=True)
                    agreement.updates += 1
                    path = folder / "batch.npz"
                    batch.save(path)
                    await sync.before_update([batch.sequences[0].token_ids.tolist()])
                    await learner.update(agreement.updates, path)
                    await sync.load(engine, agreement.updates)
    return agreement


async def _round(
    engine: PolicyEngine,
    learner: LearnerClient,
    draw: np.random.Generator,
    options: argparse.Namespace,
    agreement: Agreement,
) -> TrainingBatch:
    """Sample and score; returns the last sequences as a batch to train on."""
    sequences: list[TrainingSequence] = []
    for _ in range(options.batches):
        prompts = [
            draw.integers(0, options.vocabulary, draw.integers(1, options.prompt)).tolist()
            for _ in range(options.concurrency)
        ]
        began = time.perf_counter()
        lengths = draw.integers(1, options.length, len(prompts)).tolist()
        sampled = await asyncio.gather(
            *[
                engine.generate(prompt, TurnSampling(max_tokens=2 * length))
                for prompt, length in zip(prompts, lengths, strict=True)
            ]
        )
        agreement.sampling += time.perf_counter() - began
        whole = [[*p, *s.token_ids] for p, s in zip(prompts, sampled, strict=True)]
        began = time.perf_counter()
        scored = await learner.probe(whole)
        agreement.scoring += time.perf_counter() - began
        for prompt, answer, found in zip(prompts, sampled, scored, strict=True):
            own = np.asarray(found[len(prompt) - 1 :], np.float32)
            agreement.add(own, np.asarray(answer.log_probs, np.float32))
        sequences = [
            _sequence(prompt, answer, number)
            for number, (prompt, answer) in enumerate(zip(prompts, sampled, strict=True))
        ]
    return TrainingBatch(tuple(sequences[: 4 * GROUP]))


def _sequence(prompt: list[int], answer: SampledTokens, number: int) -> TrainingSequence:
    count, length = len(prompt), len(prompt) + len(answer.token_ids)
    log_probs = np.zeros(length, np.float32)
    log_probs[count:] = answer.log_probs
    mask = np.arange(length) >= count
    return TrainingSequence(
        token_ids=np.asarray([*prompt, *answer.token_ids], np.int32),
        mask=mask,
        sampler_log_probs=log_probs,
        policy_versions=np.where(mask, 0, -1).astype(np.int32),
        reward=float(number % 2),
        group=number // GROUP,
    )


def _method(*, exact: bool) -> Method:
    reward = {"name": "any", "reward": {"type": "retool"}}
    hyperparameters = {
        "exact_on_policy": exact,
        "optimizer": {"learning_rate": LEARNING_RATE, "micro_batch_tokens": 4096},
    }
    method = {"rewards": [reward], "hyperparameters": hyperparameters}
    return Method.model_validate({"type": "reinforcement", "reinforcement": method})


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rl.exactness", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--model", type=Path, help="default: a new tiny one")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--default", action="store_true", help="without exact_on_policy")
    parser.add_argument("--concurrency", type=int, default=128)
    parser.add_argument("--length", type=int, default=256, help="mean length of answers")
    parser.add_argument("--prompt", type=int, default=96, help="prompts are shorter, by chance")
    parser.add_argument("--batches", type=int, default=4, help="between updates")
    parser.add_argument("--vocabulary", type=int, default=64, help="of the drawn prompts")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="temper-model-") as scratch:
        model = given.model or made_model(Path(scratch) / "tiny")
        print(asyncio.run(measure(model, given)), flush=True)


if __name__ == "__main__":
    main()
