"""Reading models from their folders."""

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from services.contracts.adaptation import LoraSettings, TrainingType
from services.contracts.online import Optimisation, PpoHyperparameters
from services.trainer.rl.learner.language_model import LanguageModel, check_head
from services.trainer.rl.learner.spec import LearnerSpec
from services.trainer.rl.learner.values import Critic


def load_learner_model(spec: LearnerSpec, *, half: bool) -> LanguageModel:
    """The policy with what is trained beside it, on the CPU; ``half`` tells how it computes.

    What is trained is float32; a base under an adapter is bfloat16 where that is computed in.
    """
    settings = spec.settings
    policy = _load_policy(spec, settings.optimisation, half=half)
    critic = None
    if isinstance(settings, PpoHyperparameters):
        critic = _load_critic(spec, settings, policy, half=half)
    model = LanguageModel(policy, critic, half=half)
    check_head(model)
    return model


def load_frozen(folder: Path, adapter: Path | None, *, half: bool) -> LanguageModel:
    """A model that is only asked: a reference, or a teacher."""
    dtype = torch.bfloat16 if half else torch.float32
    model = _merged(_load(folder, dtype), adapter)
    model.requires_grad_(False)
    frozen = LanguageModel(model, half=half)
    check_head(frozen)
    return frozen


def stored_dtype(folder: Path) -> torch.dtype:
    """The precision in which a model's weights are stored."""
    dtype = AutoConfig.from_pretrained(str(folder), trust_remote_code=False).dtype
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def _load_policy(spec: LearnerSpec, settings: Optimisation, *, half: bool) -> Any:
    torch.manual_seed(spec.seed)
    if settings.training_type is TrainingType.FULL:
        model = _merged(_load(spec.model, torch.float32), spec.adapter)
        model.requires_grad_(True)
    else:
        model = _load(spec.model, torch.bfloat16 if half else torch.float32)
        if spec.adapter is not None:
            model = PeftModel.from_pretrained(model, str(spec.adapter), is_trainable=True)
        else:
            model = get_peft_model(model, lora_config(settings.lora))
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def _load_critic(
    spec: LearnerSpec, settings: PpoHyperparameters, policy: Any, *, half: bool
) -> Critic:
    """Separate: begun as another copy of what the policy began as, and adapted as it is."""
    hidden_size = policy.config.get_text_config().hidden_size
    if settings.critic.kind == "shared":
        return Critic(hidden_size)
    copy = LanguageModel(_load_policy(spec, settings.optimisation, half=half))
    return Critic(hidden_size, copy.causal.base_model)


def lora_config(settings: LoraSettings) -> LoraConfig:
    """An adapter as the settings describe it."""
    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha or 2 * settings.rank,
        lora_dropout=settings.dropout,
        target_modules=settings.target_modules or "all-linear",
        task_type=TaskType.CAUSAL_LM,
    )


def _load(folder: Path, dtype: torch.dtype) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=dtype, trust_remote_code=False, local_files_only=True
    )


def _merged(model: Any, adapter: Path | None) -> Any:
    if adapter is None:
        return model
    return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
