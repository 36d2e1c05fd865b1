"""Creates published policies and computes their log-probabilities, in the training runtime.

    python -m tests.support.models.published_policy FOLDER BASE

BASE becomes a tiny model. FOLDER gets whole models (`first`, `second`; `patched`, which is `first`
but for the tensors named in `patched.json`; `repeating`, which writes four tokens only, and so
repeats itself; `tied` and `tied-2`, whose output layer is their embeddings), `adapter-1` and
`adapter-2` (over BASE), the probes, and under each folder's name what its model says of them.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from tests.support.models.tiny_parts import build_model, build_tokenizer

LENGTHS = (300, 140)
"""Longer than a block of the prefix cache on a CPU, which has 128 tokens."""
PATCHED = ("layers.0.self_attn.k_proj.weight", "layers.1.mlp.up_proj.weight", "model.norm.weight")
"""Two are fused with others by an engine."""


def main() -> None:
    folder, base = Path(sys.argv[1]), Path(sys.argv[2])
    tokenizer = build_tokenizer()
    tokenizer.save_pretrained(base)
    build_model(tokenizer, seed=0).save_pretrained(base)
    generator = torch.Generator().manual_seed(7)
    probes = [torch.randint(256, (length,), generator=generator) for length in LENGTHS]
    log_probs = {
        name: [_log_probabilities(model, probe) for probe in probes]
        for name, model in _made(folder, base)
    }
    (folder / "probes.json").write_text(json.dumps([probe.tolist() for probe in probes]))
    (folder / "log_probs.json").write_text(json.dumps(log_probs))


def _made(folder: Path, base: Path) -> Iterator[tuple[str, nn.Module]]:
    for number, name in enumerate(("first", "second", "tied", "tied-2")):
        config = AutoConfig.from_pretrained(base, tie_word_embeddings=name.startswith("tied"))
        model = AutoModelForCausalLM.from_config(config)
        _perturb(model.parameters(), seed=number)
        model.save_pretrained(folder / name)
        yield name, model
        if name == "first":
            changed = [each for each, _ in model.named_parameters() if each.endswith(PATCHED)]
            _perturb((model.get_parameter(each) for each in changed), seed=9)
            model.save_pretrained(folder / "patched")
            (folder / "patched.json").write_text(json.dumps(changed))
            yield "patched", model
    repeating = _repeating(AutoModelForCausalLM.from_pretrained(base), seed=8)
    repeating.save_pretrained(folder / "repeating")
    yield "repeating", repeating
    for number in (1, 2):
        settings = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings)
        _perturb((p for p in model.parameters() if p.requires_grad), seed=number)
        model.save_pretrained(folder / f"adapter-{number}")
        yield f"adapter-{number}", model


def _repeating(model: Any, *, seed: int) -> Any:
    """A model of a state whose first number is constant, and decides that it writes the first four
    tokens; the other numbers decide which of them."""
    _perturb(model.parameters(), seed=seed)
    embedded, output = (
        layer.weight.data for layer in (model.get_input_embeddings(), model.get_output_embeddings())
    )
    model.model.norm.weight.data.fill_(1.0)
    embedded.mul_(3.0)
    embedded[:, 0] = 1.0
    output[:, 0] = -4.0
    output[:4, 0] = 4.0
    return model


def _perturb(parameters: Iterable[nn.Parameter], *, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        nn.init.normal_(parameter, std=0.1, generator=generator)


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
def _log_probabilities(model: Any, probe: torch.Tensor) -> list[float]:
    log_probs = torch.log_softmax(model.float().eval()(probe[None]).logits[0, :-1], dim=-1)
    chosen: list[float] = log_probs.gather(1, probe[1:, None])[:, 0].tolist()
    return chosen


if __name__ == "__main__":
    main()
