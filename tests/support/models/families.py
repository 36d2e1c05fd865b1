"""Trains a tiny random model of each family that vLLM serves and transformers can build.

    python -m tests.support.models.families REGISTRY REPORT [--part I/N]

in the training runtime. REGISTRY is vLLM's module of that name, which is read, not run. REPORT gets
a JSON object with a `Family` for each.
"""

import argparse
import ast
import copy
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from services.trainer.offline.library.sequence_forward import compute_sequences
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import Update
from tests.support.models.tiny_configs import VOCABULARY, tiny_config
from tests.support.training.learning import learner_spec

TABLE = "_TEXT_GENERATION_MODELS"
MOST_PARAMETERS = 50_000_000
RATE = 1e-3
LENGTHS = (11, 7, 4)


@dataclass
class Family:
    """What became of one: ``padded`` says why its sequences are padded, ``error`` what failed in
    ``phase``."""

    architecture: str
    model_type: str
    padded: str | None = None
    phase: str = "build"
    error: str | None = None
    supervised_difference: float | None = None
    online_difference: float | None = None


def served(registry: Path) -> set[str]:
    """The architectures of text models in vLLM's registry."""
    for statement in ast.parse(registry.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == TABLE:
            return set(ast.literal_eval(statement.value))
    raise LookupError(f"{registry} has no {TABLE}")


def families(registry: Path) -> list[tuple[str, str]]:
    """Architectures that both libraries know, with a model type of each: that of text alone, or the
    first."""
    known = served(registry)
    found: dict[str, str] = {}
    for model_type, architecture in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        for each in [architecture] if isinstance(architecture, str) else architecture:
            if each in known and (each not in found or model_type.endswith("_text")):
                found[each] = model_type
    return sorted(found.items())


def tried(architecture: str, model_type: str) -> Family:
    """Build, save, train twice supervised and once online."""
    family = Family(architecture, model_type)
    try:
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(tiny_config(model_type), dtype=torch.float32)
        model.eval()
        count = sum(each.numel() for each in model.parameters())
        if count > MOST_PARAMETERS:
            raise ValueError(f"{count} parameters are not tiny")
        family.phase = "supervised"
        family.supervised_difference = _supervised(model, family)
        family.phase = "online"
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            family.online_difference = _online(Path(folder))
        family.phase = "trained"
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        family.error = f"{type(error).__name__}: {lines[0][:200]}"
    return family


def _supervised(model: Any, family: Family) -> float:
    """The largest difference of losses from transformers' own, over two steps and after them."""
    plain = copy.deepcopy(model)
    ours = copy.deepcopy(model)
    family.padded = compute_sequences(ours)
    generator = torch.Generator().manual_seed(1)
    width = max(LENGTHS)
    ids = torch.randint(3, VOCABULARY, (len(LENGTHS), width), generator=generator)
    mask = (torch.arange(width) < torch.tensor(LENGTHS)[:, None]).long()
    labels = ids.masked_fill(mask == 0, -100)
    losses = []
    for each in (plain, ours):
        optimizer = torch.optim.AdamW(each.parameters(), RATE)
        found = []
        for _ in range(3):
            loss = each(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        losses.append(found)
    return float(np.abs(np.diff(losses, axis=0)).max())


def _online(folder: Path) -> float:
    """The difference of the loss of a step of DAPO from that of transformers' log-probabilities."""
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    batch = _batch()
    expected = _dapo_loss(plain, batch.sequences)
    spec = learner_spec(folder, "reinforcement", folder)
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
    batch.save(folder / "batch.npz")
    metrics = learner.answer(Update(step=0, batch=folder / "batch.npz")).metrics
    return float(abs(metrics["loss"] - expected))


def _batch() -> TrainingBatch:
    generator = np.random.default_rng(2)

    def sequence(number: int, length: int) -> TrainingSequence:
        mask = np.arange(length) >= 2
        return TrainingSequence(
            token_ids=generator.integers(3, VOCABULARY, length).astype(np.int32),
            mask=mask,
            sampler_log_probs=np.where(mask, -5.5, 0.0).astype(np.float32),
            policy_versions=np.where(mask, 0, -1).astype(np.int32),
            reward=float(number == 0),
            group=0,
        )

    return TrainingBatch(tuple(sequence(n, length) for n, length in enumerate((12, 9, 9, 5))))


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
def _dapo_loss(model: Any, sequences: Sequence[TrainingSequence]) -> float:
    losses = []
    for sequence in sequences:
        ids = torch.from_numpy(sequence.token_ids).long()
        logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
        log_probs = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
        sampler = torch.from_numpy(sequence.sampler_log_probs)[1:]
        advantage = 1.5 if sequence.reward else -0.5
        terms = -advantage * (log_probs - sampler).exp().clamp(max=2.0)
        losses.append(terms[torch.from_numpy(sequence.mask)[1:]])
    return float(torch.cat(losses).mean())


def main() -> None:
    """Try a part of the families."""
    parser = argparse.ArgumentParser()
    parser.add_argument("registry", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--part", default="0/1", help="I/N: every N-th family from the I-th on")
    parser.add_argument("--only", help="architectures, comma-separated")
    chosen = parser.parse_args()
    index, parts = map(int, chosen.part.split("/"))
    asked = families(chosen.registry)[index::parts]
    if chosen.only:
        asked = [each for each in asked if each[0] in chosen.only.split(",")]
    found = []
    for architecture, model_type in asked:
        found.append(asdict(tried(architecture, model_type)))
        chosen.report.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
