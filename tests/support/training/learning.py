"""Batches and settings for the learner of online training; free of torch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from services.contracts.training.fine_tuning import Method
from services.trainer.rl.batch import TopK, TrainingBatch, TrainingSequence
from services.trainer.rl.learner.protocol import LearnerSpec

VOCABULARY = 250
RULE = [{"name": "rule", "reward": {"type": "retool"}}]
TEACHER = {"type": "model", "model": "teacher"}


def learner_spec(model: Path, method: str, folder: Path, **settings: Any) -> LearnerSpec:
    """A spec with the hyperparameters ``settings`` of a method; those of the optimizer too."""
    names = (
        *("learning_rate", "micro_batch_tokens", "training_type", "lora", "dtype"),
        *("strategy", "zero_stage", "offload", "gradient_checkpointing"),
    )
    optimizer = {name: settings.pop(name) for name in names if name in settings}
    spec = {
        name: settings.pop(name)
        for name in ("adapter", "checkpoint", "teacher")
        if name in settings
    }
    hyperparameters = {"optimizer": {"learning_rate": 1e-3} | optimizer} | settings
    content: dict[str, Any] = {"hyperparameters": hyperparameters}
    if method == "distillation":
        hyperparameters.setdefault("teacher", TEACHER)
    else:
        content["rewards"] = RULE
    return LearnerSpec(
        model=model,
        socket=folder / "socket",
        seed=5,
        method=Method.model_validate({"type": method, method: content}),
        max_response_length=64,
        **spec,
    )


ARRAYS = ("token_ids", "mask", "sampler_log_probs", "policy_versions")


def drawn_batch(seed: int = 0, sequences: int = 8, top_k: int | None = None) -> TrainingBatch:
    """Groups of four samples of different lengths, each with a tool's reply amid its tokens."""
    generator = np.random.default_rng(seed)
    return TrainingBatch(tuple(_drawn(generator, index, top_k) for index in range(sequences)))


def in_branches(batch: TrainingBatch) -> TrainingBatch:
    """The same tokens to train on: each sample in two sequences, split where the tool replied."""
    sequences = []
    for number, whole in enumerate(batch.sequences):
        reply = 4 + int(np.argmin(whole.mask[4:]))
        first = {name: getattr(whole, name)[:reply] for name in ARRAYS}
        sequences.append(replace(whole, **first, sample=number))
        later = whole.mask & (np.arange(len(whole.mask)) > reply)
        sequences.append(replace(whole, mask=later, sample=number))
    return TrainingBatch(tuple(sequences))


def _drawn(generator: np.random.Generator, index: int, top_k: int | None) -> TrainingSequence:
    length = int(generator.integers(10, 40))
    mask = np.arange(length) >= 4
    mask[6:9] = False
    log_probs = generator.normal(-5.5, 0.2, length)
    return TrainingSequence(
        token_ids=generator.integers(0, VOCABULARY, length).astype(np.int32),
        mask=mask,
        sampler_log_probs=np.where(mask, log_probs, 0.0).astype(np.float32),
        policy_versions=np.where(mask, 0, -1).astype(np.int32),
        reward=float(index % 4 == 0),
        group=index // 4,
        teacher=None if top_k is None else _top(generator, length, top_k),
    )


def _top(generator: np.random.Generator, length: int, k: int) -> TopK:
    ids = np.stack([generator.permutation(VOCABULARY)[:k] for _ in range(length - 1)])
    shares = generator.dirichlet(np.ones(k + 1), length - 1)[:, :k]
    return TopK(ids.astype(np.int32), np.log(shares).astype(np.float32))
