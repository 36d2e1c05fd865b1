"""Forward and backward passes without padding and without whole logits, compared with plain ones.

Padding: responses of very different lengths, as rows of one length and packed.
Memory: few hidden units and a large vocabulary, whose logits are computed whole or in parts. Prints
CPU time, which other processes do not affect, and the peak of the memory of tensors. Run from the
repository root with the Python of the training runtime:

    OMP_NUM_THREADS=1 PYTHONPATH=. .temper/runtimes/training/bin/python -m benchmarks.sequences
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from services.trainer.forward import output_layer
from services.trainer.forward.output_layer import OutputLayer
from services.trainer.forward.packing import (
    pack_attention,
    packed_states,
    padded_states,
    trunk_of,
)
from tests.support.live_tensors import LiveTensors

ROUNDS = 5
SEQUENCES, MEAN_LENGTH = 32, 128
TOKENS, VOCABULARY = 4096, 150_000


def main() -> None:
    """Run both comparisons."""
    _padding()
    _memory()


def _padding() -> None:
    generator = np.random.default_rng(0)
    lengths = np.sort(generator.exponential(MEAN_LENGTH, SEQUENCES).astype(int) + 8)[::-1].tolist()
    model = _model(hidden=256, layers=4, vocabulary=1000)
    token_ids = torch.randint(1000, (sum(lengths),))

    def seconds(compute: Callable[..., Tensor]) -> float:
        def step() -> None:
            compute(trunk_of(model), token_ids, lengths).pow(2).mean().backward()

        return _seconds(step)

    padded = seconds(padded_states)
    problem = pack_attention(model)
    packed = seconds(packed_states)
    share = sum(lengths) / (max(lengths) * len(lengths))
    print(f"padded: {share:.2f} of the tokens are real, {padded:.2f} s per step")
    print(f"packed: 1.00 of the tokens are real, {packed:.2f} s per step {problem or ''}")
    print(f" ratio: {packed / padded:.2f}")


def _memory() -> None:
    model = _model(hidden=64, layers=1, vocabulary=VOCABULARY)
    states = torch.randn(TOKENS, 64, requires_grad=True)
    targets = torch.randint(VOCABULARY, (TOKENS,))
    output = OutputLayer(model)

    def read(values: Tensor, part: slice) -> output_layer.Readings:
        return (values.log_softmax(-1).gather(-1, targets[part, None])[:, 0],)

    def step() -> None:
        (found,) = output_layer.read_logits(states, output, read, VOCABULARY)
        (-found.mean()).backward()

    for at_once in (2**40, 2**27, 2**26, 2**25, 2**24):
        output_layer.MAX_LOGITS = at_once
        live = LiveTensors()
        with live:
            step()
        name = "whole" if at_once == 2**40 else f"{at_once:>11,} at once"
        print(f"{name}: peak {live.peak / 1e9:.2f} GB, {_seconds(step, 2):.2f} s per step")


def _model(*, hidden: int, layers: int, vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "qwen3",
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
        intermediate_size=3 * hidden,
        vocab_size=vocabulary,
    )
    return AutoModelForCausalLM.from_config(config)


def _seconds(step: Callable[[], None], rounds: int = ROUNDS) -> float:
    """The shortest time of a step, after one to warm up."""
    step()
    found = []
    for _ in range(rounds):
        began = time.process_time()
        step()
        found.append(time.process_time() - began)
    return min(found)


if __name__ == "__main__":
    main()
