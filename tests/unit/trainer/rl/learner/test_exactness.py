"""Learner and engine agree on every bit, or the training ends."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from services.inference.exact import ENVIRONMENT, kernels
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.exactness import NotOnPolicy
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import Probe, Update
from tests.support.training.learning import drawn_batch, learner_spec

PLACES = (0, 3, 31, 127, 128, 140)


@pytest.mark.parametrize("rows", [1, 3, 5, 31, 33])
def test_a_rows_product_does_not_depend_on_the_others(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    states, weight, bias = (
        torch.randn(shape, generator=generator) for shape in ((97, 80), (48, 80), (48,))
    )
    whole = kernels.linear(states, weight, bias)

    some = kernels.linear(states[:rows], weight, bias)

    assert torch.equal(some, whole[:rows])
    torch.testing.assert_close(whole, states @ weight.T + bias)


def products(threads: int) -> set[str]:
    """What a process of so many threads finds for the first rows, alone and with others beside."""
    script = f"""
import hashlib, torch
from services.inference.exact import kernels
torch.set_num_threads({threads})
generator = torch.Generator().manual_seed(0)
for inputs, outputs in ((1536, 576), (4864, 896), (2048, 64)):
    states, weight = (torch.randn(n, inputs, generator=generator) for n in (704, outputs))
    for rows in (32, 64, 192, 700):
        found = kernels.linear(states[:rows], weight)[:32].contiguous()
        print(inputs, hashlib.sha256(found.numpy().tobytes()).hexdigest())
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(ran.stdout.split("\n"))


def test_a_rows_product_does_not_depend_on_the_threads() -> None:
    found = products(1)

    assert len(found) == 3 + 1  # one for each shape, and the end of the output
    assert products(2) == found


def test_a_decoded_token_attends_as_in_its_whole_sequence() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 141, 32, generator=generator) for heads in (4, 2, 2))
    keys, values = kernels.in_blocks(key), kernels.in_blocks(value)
    whole = kernels.attention(query, keys, values, torch.tensor([141]), 0.2)

    blocks = [[2 * number + 1, 2 * number] for number in range(len(PLACES))]
    ends = [place + 1 for place in PLACES]
    key_cache, value_cache = (_cache(states, blocks, ends) for states in (keys, values))
    queries = query[0].transpose(0, 1)[list(PLACES)]
    decoded = kernels.decoded_attention(queries, key_cache, value_cache, blocks, ends, 0.2)

    assert torch.equal(decoded, whole[0].transpose(0, 1)[list(PLACES)])
    plain = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=0.2, enable_gqa=True
    )
    torch.testing.assert_close(whole, plain)


def _cache(
    states: torch.Tensor, blocks: Sequence[Sequence[int]], ends: Sequence[int]
) -> torch.Tensor:
    """A cache with the ``states`` of one sequence up to each of ``ends``, and others' behind it."""
    cache = torch.full((2 * len(ends), *states.shape[2:]), 7.0)
    for own, end in zip(blocks, ends, strict=True):
        for n, block in enumerate(own):
            used = max(0, min(kernels.KEYS, end - n * kernels.KEYS))
            cache[block, :, :used] = states[n, 0, :, :used]
    return cache


@pytest.fixture
def learner(base: Path, tmp_path: Path) -> Learner:
    spec = learner_spec(base, "reinforcement", tmp_path, exact_on_policy=True)
    return Learner(spec, ProcessGroup(spec.settings.optimizer))


def sampled(learner: Learner, batch: TrainingBatch, wrong: float = 0.0) -> TrainingBatch:
    """A batch as an engine would have sampled it that computes as the learner; ``wrong`` is added
    to the log-probability of the last token."""
    found = learner.answer(Probe(token_ids=[s.token_ids.tolist() for s in batch.sequences]))
    sequences = []
    for sequence, own in zip(batch.sequences, found.log_probs, strict=True):
        log_probs = np.asarray([0.0, *own], np.float32)
        changes: dict[str, Any] = {
            "sampler_log_probs": log_probs,
            "policy_versions": np.where(sequence.mask, 0, -1).astype(np.int32),
        }
        sequences.append(TrainingSequence(**{**vars(sequence), **changes}))
    last = sequences[-1]
    place = int(np.flatnonzero(last.mask)[-1])
    if wrong:
        last.sampler_log_probs[place] = np.nextafter(last.sampler_log_probs[place], wrong)
    return TrainingBatch(tuple(sequences))


def learn(learner: Learner, batch: TrainingBatch, folder: Path) -> dict[str, float]:
    batch.save(folder / "batch.npz")
    return learner.answer(Update(step=0, batch=folder / "batch.npz")).metrics


def test_tokens_of_one_arithmetic_are_trained_on(learner: Learner, tmp_path: Path) -> None:
    metrics = learn(learner, sampled(learner, drawn_batch()), tmp_path)

    assert metrics["sampler_difference_mean"] == 0.0
    assert metrics["sampler_difference_p999"] == 0.0
    assert metrics["grad_norm"] > 0.0


def test_one_differing_bit_ends_the_training_before_the_step(
    learner: Learner, tmp_path: Path
) -> None:
    batch = sampled(learner, drawn_batch(), wrong=-100.0)
    before = [parameter.clone() for parameter in learner._plain.parameters()]
    place = int(np.flatnonzero(batch.sequences[-1].mask)[-1])
    token = int(batch.sequences[-1].token_ids[place])

    with pytest.raises(NotOnPolicy, match=r"differ in 1 of") as failure:
        learn(learner, batch, tmp_path)

    last = len(batch.sequences) - 1
    assert f"the first is token {token} at place {place} of sequence {last}" in str(failure.value)
    after = list(learner._plain.parameters())
    assert all(torch.equal(*each) for each in zip(before, after, strict=True))
