"""A training step compared with a plain implementation of the same forward and backward passes.

The plain step computes all logits of the padded batch, their log-softmax and the same loss, and
takes an AdamW step; ours is what `Update` calls: micro-batches, logits only for trained tokens,
metrics, clipping. Both alternate, so that other load on the machine affects both alike; without a
GPU, CPU time is measured, which other processes do not affect.

Run from the repository root, with the Python of the training runtime:

    OMP_NUM_THREADS=1 PYTHONPATH=. .temper/runtimes/training/bin/python \\
        -m benchmarks.rl.step MODEL [options]

``MODEL`` is a folder, such as the one from ``temper demo addition``. The goal is a ratio of 1.05 at
most.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from services.contracts.training.fine_tuning import Method
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.micro_batches import TrainedTokens
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import LearnerSpec


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=0, help="untrained tokens per sequence")
    parser.add_argument("--response", type=int, default=192, help="trained tokens per sequence")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    spec = _spec(options.model)
    processes = ProcessGroup(spec.settings.optimizer)
    learner = Learner(spec, processes)
    batch = _batch(learner, options.sequences, options.prompt, options.response)
    tokens = TrainedTokens.of(batch)
    plain = PlainStep(options.model, batch, processes.device, bf16=processes.computes_in_bf16)
    steps: dict[str, Callable[[], object]] = {
        "plain": plain.take,
        "ours": lambda: learner.updater.update(tokens, 0),
    }
    seconds = _in_turn(steps, options.rounds)
    ratios = [ours / plain for ours, plain in zip(seconds["ours"], seconds["plain"], strict=True)]
    for name, values in seconds.items():
        rate = sum(len(s.token_ids) for s in batch.sequences) / statistics.median(values)
        print(f"{name:>6}: {statistics.median(values):8.3f} s per step, {rate:10.0f} tokens/s")
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f" ratio: {middle:.3f} (quartiles {low:.3f} to {high:.3f})")


class PlainStep:
    """DAPO's step, written plainly."""

    def __init__(
        self, folder: Path, batch: TrainingBatch, device: torch.device, *, bf16: bool
    ) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), 1e-6, (0.9, 0.95))
        self._bf16 = bf16
        sequences = batch.sequences
        rows = [torch.from_numpy(each.token_ids).long() for each in sequences]
        masks = [torch.from_numpy(each.mask) for each in sequences]
        self._rows = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
        self._mask = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True).to(device)[:, 1:]
        rewards = torch.tensor([each.reward for each in sequences])
        self._advantages = ((rewards - rewards.mean()) / rewards.std())[:, None].to(device)

    def take(self) -> None:
        """Take one step."""
        with torch.autocast(self._rows.device.type, torch.bfloat16, enabled=self._bf16):
            logits = self._model(input_ids=self._rows, use_cache=False).logits[:, :-1].float()
        log_probs = logits.log_softmax(-1).gather(-1, self._rows[:, 1:, None])[..., 0]
        ratios = (log_probs - log_probs.detach()).exp()
        clipped = ratios.clamp(0.8, 1.28)
        losses = torch.maximum(-self._advantages * ratios, -self._advantages * clipped)
        (losses[self._mask].sum() / self._mask.sum()).backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def _in_turn(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each step in each round; the first two rounds are warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 2):
        for name, step in steps.items():
            began = _clock()
            step()
            if number >= 2:
                seconds[name].append(_clock() - began)
    return seconds


def _clock() -> float:
    """Return the time in seconds, once all work queued on the device is done."""
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def _spec(model: Path) -> LearnerSpec:
    # One forward pass for the whole batch, as the plain step has.
    hyperparameters: dict[str, Any] = {"optimizer": {"micro_batch_tokens": 1 << 20}}
    reward = {"name": "any", "reward": {"type": "retool"}}
    method = {"rewards": [reward], "hyperparameters": hyperparameters}
    return LearnerSpec(
        model=model,
        socket=Path("unused"),
        seed=0,
        method=Method.model_validate({"type": "reinforcement", "reinforcement": method}),
        max_response_length=4096,
    )


def _batch(learner: Learner, sequences: int, prompt: int, response: int) -> TrainingBatch:
    generator = np.random.default_rng(0)
    length = max(prompt, 1) + response
    mask = np.arange(length) >= max(prompt, 1)
    return TrainingBatch(
        tuple(
            TrainingSequence(
                token_ids=generator.integers(0, learner.vocabulary, length).astype(np.int32),
                mask=mask,
                sampler_log_probs=np.zeros(length, np.float32),
                policy_versions=np.where(mask, 0, -1).astype(np.int32),
                reward=float(index % 2),
                group=index // 8,
            )
            for index in range(sequences)
        )
    )


if __name__ == "__main__":
    main()
