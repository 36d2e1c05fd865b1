"""Saving, publishing and resuming the learner's state."""

import json
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM

from services.contracts.errors import InvalidRequest
from services.trainer.rl.learner import parallel, state
from services.trainer.rl.learner.learner import MODEL, TRAINER, Learner
from services.trainer.rl.learner.model import load_learner_model
from services.trainer.rl.learner.parallel import (
    ParallelStrategy,
    ParameterState,
    ProcessGroup,
    full_on_cpu,
)
from services.trainer.rl.learner.protocol import Export, LearnerSpec, Probe, Publish, Save, Update
from services.trainer.rl.learner.state import LearnerState, atomic_folder, restore_state
from tests.support.training.learning import drawn_batch, learner_spec

PROBE = [[1, 2, 3, 4, 5, 6], [9, 8, 7]]


def started(spec: LearnerSpec) -> Learner:
    return Learner(spec, ProcessGroup(spec.settings.optimizer))


def updated(learner: Learner, folder: Path, *steps: int) -> Learner:
    for step in steps:
        drawn_batch(seed=step).save(folder / "batch.npz")
        learner.answer(Update(step=step, batch=folder / "batch.npz"))
    return learner


def probed(model: Any) -> list[list[float]]:
    """The probe's log-probabilities by a model as others load it."""
    found = []
    for token_ids in PROBE:
        ids = torch.tensor(token_ids)
        with torch.no_grad():
            log_probs = model(input_ids=ids[None]).logits[0, :-1].float().log_softmax(-1)
        found.append(log_probs.gather(-1, ids[1:, None])[:, 0].tolist())
    return found


def read_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
    return config


def assert_alike(one: list[list[float]], two: list[list[float]], tolerance: float = 1e-5) -> None:
    for left, right in zip(one, two, strict=True):
        assert left == pytest.approx(right, abs=tolerance)


@pytest.fixture(params=[(False, "float32"), (True, "float32"), (True, "bfloat16")])
def stored(request: pytest.FixtureRequest, base: Path, tmp_path: Path) -> Path:
    """A model of tied or untied embeddings, stored in a precision."""
    is_tied, dtype = request.param
    config = AutoConfig.from_pretrained(base)
    config.tie_word_embeddings = is_tied
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "stored")
    (tmp_path / "stored" / "chat_template.jinja").write_text("{{ messages }}")
    return tmp_path / "stored"


def test_published_weights_have_the_dtype_of_the_base(stored: Path, tmp_path: Path) -> None:
    learner = updated(started(learner_spec(stored, "ppo", tmp_path)), tmp_path, 0)
    learner.answer(Publish(folder=tmp_path / "published"))

    config = AutoConfig.from_pretrained(stored)
    assert read_config(tmp_path / "published") == read_config(stored)
    weights = load_file(tmp_path / "published" / "model.safetensors")
    assert weights.keys() == load_file(stored / "model.safetensors").keys()
    assert {each.dtype for each in weights.values()} == {config.dtype}
    published = AutoModelForCausalLM.from_pretrained(tmp_path / "published")
    expected = learner.answer(Probe(token_ids=PROBE)).log_probs
    assert_alike(probed(published), expected, 1e-5 if config.dtype == torch.float32 else 0.1)
    assert (tmp_path / "published" / "chat_template.jinja").read_text() == "{{ messages }}"


def test_tied_weights_are_published_once(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copy each weight separately, as weights arrive from a GPU."""
    from services.trainer.rl.learner.state import gather_policy_weights

    monkeypatch.setattr(
        "services.trainer.rl.learner.learner.gather_policy_weights",
        lambda *which, keep: {
            n: t.clone() for n, t in gather_policy_weights(*which, keep=keep).items()
        },
    )
    started(learner_spec(stored, "reinforcement", tmp_path)).answer(
        Publish(folder=tmp_path / "published")
    )
    weights = load_file(tmp_path / "published" / "model.safetensors")
    assert weights.keys() == load_file(stored / "model.safetensors").keys()


def test_published_adapter_loads_in_peft_and_trains_further(base: Path, tmp_path: Path) -> None:
    lora = {"rank": 4}
    spec = learner_spec(base, "reinforcement", tmp_path, training_type="lora", lora=lora)
    learner = updated(started(spec), tmp_path, 0)
    learner.answer(Export(folder=tmp_path / "exported"))
    expected = learner.answer(Probe(token_ids=PROBE)).log_probs

    plain = AutoModelForCausalLM.from_pretrained(base)
    assert_alike(probed(PeftModel.from_pretrained(plain, tmp_path / "exported")), expected)
    further = spec.model_copy(update={"adapter": tmp_path / "exported"})
    assert_alike(started(further).answer(Probe(token_ids=PROBE)).log_probs, expected)
    merged = learner_spec(base, "reinforcement", tmp_path).model_copy(
        update={"adapter": tmp_path / "exported"}
    )
    assert_alike(started(merged).answer(Probe(token_ids=PROBE)).log_probs, expected)


def test_an_adapter_is_published_merged_for_an_engine_without_a_gpu(
    stored: Path, tmp_path: Path
) -> None:
    spec = learner_spec(stored, "ppo", tmp_path, training_type="lora", lora={"rank": 4})
    learner = started(spec.model_copy(update={"publishes_merged": True}))
    before = learner.answer(Probe(token_ids=PROBE)).log_probs
    updated(learner, tmp_path, 0).answer(Publish(folder=tmp_path / "published"))

    weights = load_file(tmp_path / "published" / "model.safetensors")
    assert weights.keys() == load_file(stored / "model.safetensors").keys()
    assert read_config(tmp_path / "published") == read_config(stored) | {"dtype": "float32"}
    expected = learner.answer(Probe(token_ids=PROBE)).log_probs
    published = AutoModelForCausalLM.from_pretrained(tmp_path / "published")
    assert_alike(probed(published), expected)
    assert expected[0] != pytest.approx(before[0], abs=1e-4)
    learner.answer(Export(folder=tmp_path / "exported"))
    assert (tmp_path / "exported" / "adapter_config.json").is_file()


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("reinforcement", {"mini_batches": 2}),
        ("reinforcement", {"training_type": "lora", "lora": {"rank": 4}}),
        ("ppo", {"epochs": 2}),
        ("ppo", {"critic": {"kind": "shared"}, "training_type": "lora"}),
    ],
)
def test_resuming_from_a_checkpoint_is_bitwise_exact(
    method: str, settings: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    spec = learner_spec(base, method, tmp_path, **settings)
    learner = updated(started(spec), tmp_path, 0, 1)
    learner.answer(Save(folder=tmp_path / "checkpoint"))
    updated(learner, tmp_path, 2, 3).answer(Save(folder=tmp_path / "straight"))

    resumed = started(spec.model_copy(update={"checkpoint": tmp_path / "checkpoint"}))
    updated(resumed, tmp_path, 2, 3).answer(Save(folder=tmp_path / "resumed"))
    for name in ("weights.safetensors", "optimizer.safetensors"):
        one = load_file(tmp_path / "straight" / TRAINER / name)
        two = load_file(tmp_path / "resumed" / TRAINER / name)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[each], two[each]) for each in one)


def test_a_checkpoint_is_read_one_parameter_at_a_time(base: Path, tmp_path: Path) -> None:
    model = load_learner_model(learner_spec(base, "reinforcement", tmp_path), bf16=False)
    trained = {name: each.detach().clone() for name, each in model.named_parameters()}
    moments = {f"{name}/{kind}": each.clone() for name, each in trained.items() for kind in "mv"}
    LearnerState(trained, moments).write(tmp_path / "state")
    read: list[weakref.ref[torch.Tensor]] = []
    in_memory: list[int] = []

    class Strategy:
        def restore(self, states: Iterable[ParameterState]) -> None:
            for _, value, optimizer_state in states:
                read.extend(weakref.ref(each) for each in (value, *optimizer_state.values()))
                in_memory.append(sum(each() is not None for each in read))

    restore_state(tmp_path / "state", model, cast("ParallelStrategy", Strategy()))

    assert len(in_memory) == len(trained)
    assert max(in_memory) <= 3


def test_checkpoint_contains_a_servable_model(base: Path, tmp_path: Path) -> None:
    learner = updated(started(learner_spec(base, "ppo", tmp_path)), tmp_path, 0)
    learner.answer(Save(folder=tmp_path / "checkpoint"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint" / MODEL)
    assert_alike(probed(model), learner.answer(Probe(token_ids=PROBE)).log_probs)
    assert (tmp_path / "checkpoint" / MODEL / "tokenizer.json").exists()


def test_only_checkpoints_and_exports_wait_for_the_disk(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = started(learner_spec(base, "reinforcement", tmp_path))
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)

    learner.answer(Publish(folder=tmp_path / "published"))
    assert flushed == []
    for request in (Save(folder=tmp_path / "checkpoint"), Export(folder=tmp_path / "exported")):
        learner.answer(request)
        assert flushed
        flushed.clear()


@pytest.mark.parametrize("training_type", ["full", "lora"])
def test_only_the_main_process_copies_weights_to_host_memory(
    base: Path, tmp_path: Path, training_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = learner_spec(base, "ppo", tmp_path, training_type=training_type)
    learner = updated(started(spec), tmp_path, 0)
    copied: list[int] = []

    def counted(tensor: torch.Tensor, *, keep: bool, copy: bool = False) -> torch.Tensor:
        found = full_on_cpu(tensor, keep=keep, copy=copy)
        copied.append(found.numel())
        return found

    monkeypatch.setattr(parallel, "full_on_cpu", counted)
    monkeypatch.setattr(state, "full_on_cpu", counted)
    monkeypatch.setattr(ProcessGroup, "is_main", property(lambda _: False))
    for request in (Publish(folder=tmp_path / "published"), Save(folder=tmp_path / "checkpoint")):
        learner.answer(request)

    assert copied
    assert sum(copied) == 0
    assert not (tmp_path / "published").exists()
    assert not (tmp_path / "checkpoint").exists()


def test_atomic_folder_is_complete_or_absent(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "new", durable=True) as partial:
        (partial / "bf16").write_text("bf16")
        raise RuntimeError
    assert not (tmp_path / "new").exists()
    with atomic_folder(tmp_path / "new", durable=True) as partial:
        (partial / "whole").write_text("whole")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["whole"]
    with pytest.raises(FileExistsError), atomic_folder(tmp_path / "new", durable=True):
        pass


def test_log_probabilities_are_those_of_soft_capped_logits(tmp_path: Path) -> None:
    config = Gemma2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=32,
        final_logit_softcapping=0.1,
    )
    model = Gemma2ForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "soft")
    token_ids = list(range(1, 9))
    with torch.no_grad():
        expected = model(torch.tensor([token_ids])).logits[0, :-1].log_softmax(-1)

    learner = started(learner_spec(tmp_path / "soft", "reinforcement", tmp_path))
    (found,) = learner.answer(Probe(token_ids=[token_ids])).log_probs

    assert found == pytest.approx(expected[range(7), token_ids[1:]].tolist(), abs=1e-6)


def test_remote_teacher_refuses_a_temperature(base: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as caught:
        started(learner_spec(base, "distillation", tmp_path, temperature=2.0))
    assert caught.value.param == "method.distillation.hyperparameters.temperature"
