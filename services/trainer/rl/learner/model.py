"""The models of the learner: loading them, and reading logits and values where needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from services.contracts.errors import InvalidRequest
from services.contracts.training.online import PpoHyperparameters
from services.contracts.training.optimizer import LoraSettings, OptimizerSettings, TrainingType
from services.trainer.forward.dropout import check_alike, drawing_modules, remove_dropout
from services.trainer.forward.exact import compute_exactly, in_whole_rows
from services.trainer.forward.output_layer import OutputLayer, Reader, Readings, read_logits
from services.trainer.forward.packing import (
    pack_attention,
    packed_states,
    padded_states,
    trunk_of,
)
from services.trainer.rl.learner.protocol import LearnerSpec


class LanguageModel(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A causal transformers model, with or without a PEFT adapter and a critic.

    Sequences are given packed. They are computed so, without padding, once
    `pack_sequences` has made sure that the model can do it.
    """

    def __init__(self, model: Any, critic: nn.Module | None = None, *, bf16: bool = False) -> None:
        """``bf16``: forward passes autocast to bfloat16, whatever the dtype of the weights."""
        super().__init__()
        self.bf16 = bf16
        self.model = model
        self.critic = critic
        self.output = OutputLayer(self.causal)
        self.packs = False
        self.exact = False

    def compute_exactly(self) -> None:
        """Compute as the engine does, bit by bit, from now on; before `pack_sequences`.

        Raises `InvalidRequest` for a model that cannot.
        """
        compute_exactly(self.causal)
        if problem := self.pack_sequences():
            raise InvalidRequest(f"exact_on_policy needs packed rows: {problem}", param="model")
        self.exact = True

    def pack_sequences(self, *, tried: bool = False) -> str | None:
        """Compute without padding from now on, the critic too; returns why it cannot.

        ``tried``: another process, or a copy, found that it can.
        """
        trunk = None if self.critic is None else self.critic.trunk
        models = [each for each in (self.causal, trunk) if each is not None]
        problems = [pack_attention(each, tried=tried) for each in models]
        problem = next(filter(None, problems), None)
        self.packs = problem is None
        return problem

    @property
    def causal(self) -> Any:
        """The transformers model; an adapter is inside its layers."""
        get_base_model = getattr(self.model, "get_base_model", None)
        return self.model if get_base_model is None else get_base_model()

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all modules; in both they compute the same."""
        super().train(mode)
        for module in drawing_modules(self):
            module.training = False
        return self

    def is_layer(self, module: nn.Module) -> bool:
        """Whether a module is a layer of the model or of its critic."""
        return type(module).__name__ in (self.causal._no_split_modules or ())

    def forward(
        self, token_ids: Tensor, lengths: Sequence[int], states: Tensor, read: Reader
    ) -> tuple[Readings, Tensor | None]:
        """Read the logits at ``states`` (m,) of sequences ``token_ids`` (n,) of these lengths.

        Returns what ``read`` returned, and the values (m,) there if there is a critic.
        """
        with torch.autocast(token_ids.device.type, torch.bfloat16, enabled=self.bf16):
            hidden = self.hidden(token_ids, lengths)
            readings = self.read(hidden[states], read)
            if self.critic is None:
                return readings, None
            if self.critic.trunk is not None:
                hidden = self._states(self.critic.trunk, token_ids, lengths)
            return readings, self.critic(hidden[states])

    def hidden(self, token_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """Last hidden states (n, h) of sequences ``token_ids`` (n,) of these lengths."""
        return self._states(trunk_of(self.causal), token_ids, lengths)

    def _states(self, trunk: Any, token_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        if self.exact:
            filled, parts = in_whole_rows(token_ids, lengths)
            return packed_states(trunk, filled, parts)[: len(token_ids)]
        compute = packed_states if self.packs else padded_states
        return compute(trunk, token_ids, lengths)

    def logits(self, states: Tensor) -> Tensor:
        """Logits (c, v) of states (c, h), in float32."""
        return self.output(states)

    def read(self, states: Tensor, read: Reader) -> Readings:
        """Read the logits of ``states`` (m, h), some at a time."""
        return read_logits(
            states, self.logits, read, self.causal.config.get_text_config().vocab_size
        )


class Float32Linear(nn.Linear):  # type: ignore[misc]  # torch is untyped here
    """A linear layer that computes in float32, whatever the dtype of its weights and inputs.

    In bfloat16, logits between 16 and 32 would be multiples of 1/8.
    """

    def forward(self, states: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.float()
        with torch.autocast(states.device.type, enabled=False):
            return nn.functional.linear(states.float(), self.weight.float(), bias)


@dataclass(frozen=True)
class LogprobReader:
    """Reads the log-probabilities of ``targets`` (m,) and the entropies in nats, at a temperature.

    Entropies have a gradient only with an entropy bonus.
    """

    targets: Tensor
    temperature: float = 1.0
    entropy_gradient: bool = False

    def __call__(self, logits: Tensor, part: slice) -> Readings:
        """(log-probabilities, entropies), each (c,)."""
        if self.temperature != 1.0:
            logits = logits / self.temperature
        everywhere = logits.log_softmax(-1)
        log_probs = everywhere.gather(-1, self.targets[part, None])[:, 0]
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.entropy_gradient):
            entropies = -(everywhere.exp() * everywhere).sum(-1)
        return log_probs, entropies


class ValueModel(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A value head, on its own trunk or on the policy's.

    The head is initialized to zero, so that the first values are 0.
    """

    def __init__(self, hidden_size: int, trunk: Any | None = None) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(hidden_size, 1, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Values (m,) of hidden states (m, h) of the trunk."""
        return self.head(states.float())[:, 0].float()


def load_learner_model(
    spec: LearnerSpec, *, bf16: bool, checkpointing: bool = False, on_meta: bool = False
) -> LanguageModel:
    """The policy with its critic, on the CPU; ``bf16``: forward passes use bfloat16;
    ``checkpointing``: activations are recomputed in the backward pass.

    With ``on_meta`` their stored weights are not read: another process will send them. Trained
    weights are float32; a frozen base under an adapter is bfloat16 with ``bf16``. Neither has
    dropout: `InvalidRequest` for a model whose layers draw all the same.
    """
    settings = spec.settings
    load = partial(_load_policy, spec, settings.optimizer, bf16=bf16, on_meta=on_meta)
    policy = load()
    critic = None
    if isinstance(settings, PpoHyperparameters):
        critic = _load_critic(settings, policy, load)
    model = LanguageModel(policy, critic, bf16=bf16)
    if not on_meta:
        model.output.check()
        check_alike(model, model.causal)
    if checkpointing:
        for trained in filter(None, (policy, critic and critic.trunk)):
            trained.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def load_frozen(
    folder: Path, adapter: Path | None, *, bf16: bool, trusted: bool = False
) -> LanguageModel:
    """A model that is only evaluated: a reference or a teacher."""
    dtype = torch.bfloat16 if bf16 else torch.float32
    model = _merged(_load(folder, dtype, trusted=trusted), adapter)
    model.requires_grad_(False)
    frozen = LanguageModel(model, bf16=bf16)
    frozen.output.check()
    return frozen


def stored_dtype(folder: Path, *, trusted: bool = False) -> torch.dtype:
    """The dtype of a model's stored weights."""
    dtype = AutoConfig.from_pretrained(str(folder), trust_remote_code=trusted).dtype
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def _load_policy(
    spec: LearnerSpec, settings: OptimizerSettings, *, bf16: bool, on_meta: bool
) -> Any:
    torch.manual_seed(spec.seed)
    trusted = spec.model in spec.trusted
    load = _on_meta if on_meta else _load
    if settings.training_type is TrainingType.FULL:
        model = load(spec.model, torch.float32, trusted=trusted)
        if not on_meta:
            model = _merged(model, spec.adapter)
        model.requires_grad_(True)
    else:
        dtype = torch.bfloat16 if bf16 else torch.float32
        model = load(spec.model, dtype, trusted=trusted)
        if spec.adapter is not None:
            model = PeftModel.from_pretrained(model, str(spec.adapter), is_trainable=True)
        else:
            model = get_peft_model(model, lora_config(settings.lora))
    remove_dropout(model)
    return model


def _load_critic(settings: PpoHyperparameters, policy: Any, load: Callable[[], Any]) -> ValueModel:
    """A separate critic starts as another copy of the initial policy, which ``load`` gives, and is
    adapted in the same way."""
    hidden_size = policy.config.get_text_config().hidden_size
    if settings.critic.kind == "shared":
        return ValueModel(hidden_size)
    copy = LanguageModel(load())
    return ValueModel(hidden_size, trunk_of(copy.causal))


def lora_config(settings: LoraSettings) -> LoraConfig:
    """The PEFT configuration of the settings."""
    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha or 2 * settings.rank,
        lora_dropout=settings.dropout,
        target_modules=settings.target_modules or "all-linear",
        task_type=TaskType.CAUSAL_LM,
    )


def _load(folder: Path, dtype: torch.dtype, *, trusted: bool) -> Any:
    return _with_float32_head(
        AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, trust_remote_code=trusted, local_files_only=True
        )
    )


def _on_meta(folder: Path, dtype: torch.dtype, *, trusted: bool) -> Any:
    """What `_load` gives, on the meta device: shapes and dtypes without memory."""
    config = AutoConfig.from_pretrained(
        str(folder), trust_remote_code=trusted, local_files_only=True
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trusted)
    return _with_float32_head(model)


def _with_float32_head(model: Any) -> Any:
    head = model.get_output_embeddings()
    if type(head) is nn.Linear:
        head.__class__ = Float32Linear  # keeps its parameters, their names, and what ties them
    return model


def _merged(model: Any, adapter: Path | None) -> Any:
    if adapter is None:
        return model
    return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
