"""How FSDP starts and gathers, in a group of one process."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM

from services.trainer.rl.learner.model import Float32Linear, LanguageModel, load_learner_model
from services.trainer.rl.learner.parallel import FullySharded
from tests.support.training.learning import learner_spec

TOKEN_IDS = torch.arange(1, 9)
EVERYWHERE = torch.arange(8)
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("reinforcement", {}),
    ("reinforcement", {"training_type": "lora", "lora": {"rank": 4}}),
    ("ppo", {"critic": {"kind": "separate"}}),
    ("ppo", {"critic": {"kind": "shared"}}),
]


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def stored(base: Path, tmp_path: Path) -> Path:
    """A model of tied embeddings."""
    config = AutoConfig.from_pretrained(base)
    config.tie_word_embeddings = True
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "stored")
    return tmp_path / "stored"


def sharded(model: LanguageModel, *, bf16: bool = False) -> Any:
    place = SimpleNamespace(device=torch.device("cpu"), is_main_process=True)
    strategy = FullySharded(cast("Accelerator", place), 1.0, bf16=bf16)
    wrapped, _ = strategy.prepare(model, lambda each: torch.optim.AdamW(each.parameters()))
    return wrapped


def logits_of(model: Any) -> Tensor:
    (logits,), _ = model(TOKEN_IDS, [8], EVERYWHERE, lambda logits, _: (logits,))
    return cast("Tensor", logits)


@pytest.mark.parametrize(("method", "settings"), SETTINGS)
def test_a_sharded_model_computes_what_the_loaded_one_does(
    method: str, settings: dict[str, Any], stored: Path, tmp_path: Path, group: None
) -> None:
    model = load_learner_model(learner_spec(stored, method, tmp_path, **settings), bf16=False)
    expected = logits_of(model.eval()).detach()
    names = [name for name, _ in model.named_parameters()]

    wrapped = sharded(model)

    torch.testing.assert_close(logits_of(wrapped), expected)
    assert [name for name, _ in wrapped.named_parameters()] == names
    assert all(isinstance(each, DTensor) for each in wrapped.parameters())


@pytest.mark.parametrize(("method", "settings"), SETTINGS)
@pytest.mark.parametrize("continues", [False, True], ids=["from the base", "from an adapter"])
def test_other_processes_start_with_the_same_model_without_its_weights(
    continues: bool, method: str, settings: dict[str, Any], stored: Path, tmp_path: Path
) -> None:
    spec = learner_spec(stored, method, tmp_path, **settings)
    if continues:
        model = AutoModelForCausalLM.from_pretrained(stored)
        config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
        get_peft_model(model, config).save_pretrained(tmp_path / "adapter")
        spec = spec.model_copy(update={"adapter": tmp_path / "adapter"})
    whole = load_learner_model(spec, bf16=True)
    (stored / "model.safetensors").unlink()
    empty = load_learner_model(spec, bf16=True, on_meta=True)

    assert described(empty) == described(whole)
    assert [n for n, _ in empty.named_buffers()] == [n for n, _ in whole.named_buffers()]
    assert isinstance(empty.causal.get_output_embeddings(), Float32Linear)
    made = ("lora_", "critic.head")  # not read from the model's folder
    read = [p for n, p in empty.named_parameters() if not any(each in n for each in made)]
    assert all(each.is_meta for each in read)


def described(model: LanguageModel) -> list[tuple[str, torch.Size, torch.dtype, bool]]:
    return [(n, p.shape, p.dtype, p.requires_grad) for n, p in model.named_parameters()]


def test_layers_are_gathered_in_bfloat16_and_the_output_layer_in_float32(
    stored: Path, tmp_path: Path, group: None
) -> None:
    spec = learner_spec(stored, "reinforcement", tmp_path)
    wrapped = sharded(load_learner_model(spec, bf16=True), bf16=True)
    seen: dict[str, torch.dtype] = {}
    layer = wrapped.causal.base_model.layers[0].self_attn.q_proj
    head = wrapped.causal.get_output_embeddings()
    layer.register_forward_hook(lambda module, *_: seen.update(layer=module.weight.dtype))
    head.register_forward_hook(lambda module, *_: seen.update(head=module.weight.dtype))

    logits_of(wrapped).sum().backward()

    assert seen == {"layer": torch.bfloat16, "head": torch.float32}
    trained = list(wrapped.parameters())
    assert {each.dtype for each in trained} == {torch.float32}
    assert {each.grad.dtype for each in trained if each.grad is not None} == {torch.float32}
