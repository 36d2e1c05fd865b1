"""Micro-batch size and optimizer offloading do not change the result."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from services.contracts.training.fine_tuning import Method
from services.models.capacity.online import MicroBatching
from services.trainer.rl.learner.card_memory import HostAdamW
from services.trainer.rl.learner.learner import TRAINER, Learner
from services.trainer.rl.learner.micro_batches import chosen_micro_batching
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import ColocatedEngine, LearnerSpec, Save, Update
from tests.support.training.learning import drawn_batch, learner_spec

CUDA = torch.device("cuda", 0)
LARGE = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LearnerSpec:
    """An adapter on a model of 8B weights, on a GPU of 80 GB; of the model only config.json."""
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "config.json").write_text(json.dumps(LARGE))
    properties = SimpleNamespace(total_memory=80 * 10**9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    spec = learner_spec(tmp_path / "large", "reinforcement", tmp_path, training_type="lora")
    settings = spec.method.model_dump()
    hyperparameters = settings["reinforcement"]["hyperparameters"]
    hyperparameters |= {"max_prompt_length": 1024}
    hyperparameters["sampling"]["max_tokens"] = 1024
    return spec.model_copy(update={"method": Method.model_validate(settings)})


def saved(spec: LearnerSpec, folder: Path, *steps: int) -> dict[str, torch.Tensor]:
    """Weights and optimizer states after some updates."""
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
    folder.mkdir()
    for step in steps:
        drawn_batch(seed=step).save(folder / "batch.npz")
        learner.answer(Update(step=step, batch=folder / "batch.npz"))
    learner.answer(Save(folder=folder / "saved"))
    trainer = folder / "saved" / TRAINER
    files = ("weights.safetensors", "optimizer.safetensors")
    return {f"{file}/{n}": t for file in files for n, t in load_file(trainer / file).items()}


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("method", ["reinforcement", "ppo"])
def test_an_optimizer_on_the_host_trains_the_same_weights_across_a_restart(
    method: str, base: Path, tmp_path: Path
) -> None:
    usual = saved(learner_spec(base, method, tmp_path), tmp_path / "usual", 0, 1, 2)

    spec = learner_spec(base, method, tmp_path, offload=True)
    saved(spec, tmp_path / "begun", 0, 1)
    resumed = spec.model_copy(update={"checkpoint": tmp_path / "begun" / "saved"})

    assert_equal(saved(resumed, tmp_path / "resumed", 2), usual)


def test_an_offloaded_optimizer_keeps_its_states_on_the_host(base: Path, tmp_path: Path) -> None:
    spec = learner_spec(base, "reinforcement", tmp_path, offload=True)
    processes = ProcessGroup(spec.settings.optimizer)

    optimizer = Learner(spec, processes).updater.optimizer

    assert isinstance(optimizer, HostAdamW)


@pytest.mark.parametrize("method", ["reinforcement", "ppo"])
def test_recomputed_activations_give_the_same_weights(
    method: str, base: Path, tmp_path: Path
) -> None:
    usual = saved(learner_spec(base, method, tmp_path), tmp_path / "usual", 0)
    again = saved(
        learner_spec(base, method, tmp_path, gradient_checkpointing=True), tmp_path / "again", 0
    )

    assert usual.keys() == again.keys()
    for name, tensor in usual.items():
        torch.testing.assert_close(again[name], tensor, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("engine", "batching"),
    [
        (None, MicroBatching(4096, checkpointing=False)),
        (ColocatedEngine(memory=0.45), MicroBatching(16_384, checkpointing=True)),
        (ColocatedEngine(memory=0.45, sleeps=True), MicroBatching(4096, checkpointing=False)),
        (ColocatedEngine(memory=0.65), MicroBatching(8192, checkpointing=True)),
    ],
    ids=["engine elsewhere", "engine on the GPU", "asleep during updates", "larger engine"],
)
def test_micro_batches_are_chosen_from_what_the_engine_leaves(
    engine: ColocatedEngine | None, batching: MicroBatching, large: LearnerSpec
) -> None:
    settings: dict[str, Any] = large.method.model_dump()
    if engine is not None:
        placement = {"engine_memory": engine.memory, "sleep": engine.sleeps}
        settings["reinforcement"]["hyperparameters"]["placement"] |= placement
    spec = large.model_copy(update={"engine": engine, "method": Method.model_validate(settings)})

    assert chosen_micro_batching(spec, CUDA, processes=1) == batching


def test_micro_batches_are_not_bounded_by_memory_without_a_gpu(large: LearnerSpec) -> None:
    usual = MicroBatching(16_384, checkpointing=False)

    assert chosen_micro_batching(large, torch.device("cpu"), processes=1) == usual
