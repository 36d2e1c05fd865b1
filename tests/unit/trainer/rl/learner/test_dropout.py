"""Nothing that online training compares is computed with dropout."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, OPTConfig, PhimoeConfig
from transformers.models.gpt2 import modeling_gpt2

from services.contracts.errors import InvalidRequest
from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.model import LanguageModel, LogprobReader, load_learner_model
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import Export, LearnerSpec, Probe
from tests.support.training.learning import drawn_batch, learner_spec
from tests.support.training.updates import update

TOKEN_IDS = torch.arange(1, 17)
DROPOUT = 0.1
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
FAMILIES: dict[str, Any] = {
    "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=256),
    "opt": OPTConfig(
        **SIZES, ffn_dim=64, word_embed_proj_dim=32, attention_dropout=0.1, layerdrop=0.3
    ),
    "phimoe": PhimoeConfig(
        **SIZES, num_key_value_heads=1, intermediate_size=64, num_local_experts=4,
        input_jitter_noise=0.1, attention_dropout=0.1,
    ),
}  # fmt: skip


def stored(name: str, base: Path, folder: Path) -> Path:
    """A tiny model of a family, with the dropout of its published configurations."""
    torch.manual_seed(2)
    config = FAMILIES[name]
    config.vocab_size = 256
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / name)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder / name)
    return folder / name


def adapter_of(base: Path, folder: Path) -> Path:
    """An adapter that supervised training with dropout has left."""
    model = AutoModelForCausalLM.from_pretrained(base)
    settings = LoraConfig(r=4, lora_dropout=DROPOUT, target_modules="all-linear")
    adapted = get_peft_model(model, settings)
    torch.manual_seed(3)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    adapted.save_pretrained(folder / "adapter")
    return folder / "adapter"


def computed(model: LanguageModel) -> list[torch.Tensor]:
    """The log-probabilities of a few tokens, and the values of the critic if there is one."""
    read = LogprobReader(TOKEN_IDS[1:])
    with torch.no_grad():
        (log_probs, _), values = model(TOKEN_IDS, [16], torch.arange(15), read)
    return [log_probs] if values is None else [log_probs, values]


def assert_alike_in_both_modes(model: LanguageModel) -> None:
    if model.critic is not None:
        torch.nn.init.normal_(model.critic.head.weight)
    expected = computed(model.eval())
    torch.manual_seed(0)
    for found, right in zip(computed(model.train()), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["ppo", "distillation"])
@pytest.mark.parametrize("family", FAMILIES)
def test_policy_student_and_critic_compute_in_training_as_in_sampling(
    family: str, method: str, base: Path, tmp_path: Path
) -> None:
    spec = learner_spec(stored(family, base, tmp_path), method, tmp_path)

    assert_alike_in_both_modes(load_learner_model(spec, bf16=False))


def spec_of_adapter(base: Path, folder: Path, method: str) -> LearnerSpec:
    adapter = adapter_of(base, folder)
    return learner_spec(base, method, folder, training_type="lora", adapter=adapter)


@pytest.mark.parametrize("method", ["ppo", "reinforcement"])
def test_an_adapter_that_was_trained_with_dropout_is_trained_further_without(
    method: str, base: Path, tmp_path: Path
) -> None:
    model = load_learner_model(spec_of_adapter(base, tmp_path, method), bf16=False)

    assert_alike_in_both_modes(model)


def on_policy(learner: Learner) -> TrainingBatch:
    """A batch whose sampler had exactly the learner's weights."""
    drawn = drawn_batch().sequences
    probed = learner.answer(Probe(token_ids=[each.token_ids.tolist() for each in drawn]))
    return TrainingBatch(
        tuple(
            replace(each, sampler_log_probs=np.where(each.mask, [0.0, *found], 0.0).astype("f4"))
            for each, found in zip(drawn, probed.log_probs, strict=True)
        )
    )


@pytest.mark.parametrize("trained", ["gpt2", "adapter"])
def test_an_update_on_policy_has_no_mismatch_and_leaves_the_configuration(
    trained: str, base: Path, tmp_path: Path
) -> None:
    spec = (
        spec_of_adapter(base, tmp_path, "reinforcement")
        if trained == "adapter"
        else learner_spec(stored(trained, base, tmp_path), "reinforcement", tmp_path)
    )
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))

    metrics = update(learner, tmp_path, on_policy(learner)).metrics

    assert metrics["sampler_difference_mean"] == pytest.approx(0.0, abs=1e-6)
    learner.answer(Export(folder=tmp_path / "exported"))
    name = "adapter_config.json" if trained == "adapter" else "config.json"
    before = json.loads(((spec.adapter or spec.model) / name).read_bytes())
    after = json.loads((tmp_path / "exported" / name).read_bytes())
    rates = {"lora_dropout": DROPOUT} if trained == "adapter" else {"attn_pdrop": DROPOUT}
    assert rates.items() <= after.items()
    assert {key for key in before if "drop" in key and before[key] != after.get(key)} == set()


def test_a_model_that_draws_all_the_same_is_refused(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noisy(modeling_gpt2.GPT2MLP):  # type: ignore[misc]  # transformers is untyped here
        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = super().forward(hidden_states)
            return found + torch.randn_like(found) if self.training else found

    folder = stored("gpt2", base, tmp_path)
    monkeypatch.setattr(modeling_gpt2, "GPT2MLP", Noisy)

    with pytest.raises(InvalidRequest, match="otherwise in training than in sampling"):
        load_learner_model(learner_spec(folder, "reinforcement", tmp_path), bf16=False)
