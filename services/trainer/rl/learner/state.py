"""Saving and restoring the learner: full tensors by name, independent of sharding, and model
folders for engines."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import GenerationConfig

from services.models.loadable import code_files
from services.models.tokenizer_ids.files import GENERATION_CONFIG, copy_tokenizer
from services.trainer.rl.learner.model import LanguageModel
from services.trainer.rl.learner.parallel import ParallelStrategy, ParameterState, full_on_cpu

WEIGHTS = "weights.safetensors"
MOMENTS = "optimizer.safetensors"
DESCRIPTION = "learner.json"
FORMAT = 1

_OF = "/"
_WRAPPED = ".base_layer"
_ADAPTER_PARTS = "lora_"
"""Names that PEFT gives to a layer below an adapter, and to the parts of one."""


@dataclass(frozen=True)
class LearnerState:
    """The trained weights in full precision, and the optimizer state."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]

    def write(self, folder: Path) -> None:
        """Write into a new folder."""
        folder.mkdir()
        save_file(self.weights, folder / WEIGHTS)
        save_file(self.moments, folder / MOMENTS)
        (folder / DESCRIPTION).write_text(json.dumps({"format": FORMAT}) + "\n")


def gather_state(
    model: LanguageModel, strategy: ParallelStrategy, *, keep: bool = True
) -> LearnerState:
    """The current state; collective. Only with ``keep`` is it brought to host memory."""
    weights, moments = {}, {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            weights[name] = strategy.gather(parameter, keep=keep)
            for kind, moment in strategy.optimizer_state(parameter, keep=keep).items():
                moments[f"{name}{_OF}{kind}"] = moment
    return LearnerState(weights, moments)


def restore_state(folder: Path, model: LanguageModel, strategy: ParallelStrategy) -> None:
    """Restore a state, read one parameter at a time: every process reads it, and the host has no
    memory for a copy per process.

    Raises ValueError for another format, KeyError for another model. Collective.
    """
    description = json.loads((folder / DESCRIPTION).read_bytes())
    if description["format"] != FORMAT:
        raise ValueError(f"{folder} has format {description['format']}, not {FORMAT}")
    with (
        safe_open(folder / WEIGHTS, framework="pt") as weights,
        safe_open(folder / MOMENTS, framework="pt") as moments,
    ):
        strategy.restore(_stored_states(model, weights, moments))


def _stored_states(model: LanguageModel, weights: Any, moments: Any) -> Iterator[ParameterState]:
    """The state of each trained parameter, all that is read from ``weights`` and ``moments``."""
    known = set(weights.keys())
    kinds: dict[str, list[str]] = {}
    for key in moments.keys():  # noqa: SIM118 - a file, not a mapping
        name, _, kind = key.rpartition(_OF)
        kinds.setdefault(name, []).append(kind)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if name not in known:
            raise KeyError(name)
        state = {kind: moments.get_tensor(f"{name}{_OF}{kind}") for kind in kinds.get(name, ())}
        yield ParameterState(parameter, weights.get_tensor(name), state)


def gather_policy_weights(
    model: LanguageModel, strategy: ParallelStrategy, *, keep: bool = True
) -> dict[str, Tensor]:
    """The policy's weights, or only its adapter's; collective. Only with ``keep`` are they
    brought to host memory."""
    policy = model.model
    parameters = dict(policy.named_parameters(remove_duplicate=False))
    names = list(policy.state_dict())
    if hasattr(policy, "peft_config"):
        names = [name for name, parameter in parameters.items() if parameter.requires_grad]
    buffers = dict(policy.named_buffers())
    return {
        name: strategy.gather(parameters[name], keep=keep)
        if name in parameters
        else full_on_cpu(buffers[name], keep=keep)
        for name in names
    }


def merged_policy_weights(model: LanguageModel) -> dict[str, Tensor]:
    """The weights of the policy's base with its adapter added, under the base's names; the model
    stays as it is. Not for a model that several processes share."""
    weights = {}
    for name, tensor in model.causal.state_dict().items():
        owner, _, kind = name.rpartition(".")
        if not any(part.startswith(_ADAPTER_PARTS) for part in owner.split(".")):
            weights[f"{owner.removesuffix(_WRAPPED)}.{kind}"] = tensor.detach()
    for name, module in model.causal.named_modules():
        if isinstance(module, LoraLayer):
            weight = f"{name}.weight"
            for adapter in module.active_adapters:
                weights[weight] = weights[weight] + module.get_delta_weight(adapter).detach()
    return weights


def write_model(
    model: Any,
    state: dict[str, Tensor],
    dtype: torch.dtype,
    base: Path,
    folder: Path,
    *,
    tokenizer: Path | None = None,
) -> None:
    """Write a transformers model, or a PEFT adapter, into a folder.

    ``state`` holds its weights by name; full weights are stored as ``dtype``. Generation settings
    and the model's own code are copied from the folder ``base``, tokenizer and chat templates from
    ``tokenizer``, or from ``base`` if it is None.
    """
    if isinstance(model, PeftModel):  # PEFT marks the base below it, too
        model.save_pretrained(str(folder), state_dict=state, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # an empty model card
    else:
        # The base's is copied verbatim, even if transformers would reject it.
        model.generation_config = GenerationConfig()
        model.save_pretrained(str(folder), state_dict=stored_weights(model, state, dtype))
        model.config.dtype = dtype  # save_pretrained wrote the compute dtype
        model.config.to_json_file(str(folder / "config.json"))
    copy_tokenizer(tokenizer or base, folder)
    if (base / GENERATION_CONFIG).is_file():
        shutil.copyfile(base / GENERATION_CONFIG, folder / GENERATION_CONFIG)
    for path in code_files(base):
        shutil.copyfile(path, folder / path.name)


def stored_weights(
    model: Any, state: dict[str, Tensor], dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """Weights in their stored dtype, None: in their own; for tied weights only the first."""
    return {
        name: tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor
        for name, tensor in state.items()
        if name not in model.all_tied_weights_keys
    }


@contextmanager
def atomic_folder(folder: Path, *, durable: bool, over: Path | None = None) -> Iterator[Path]:
    """Yield a folder to write into; it becomes ``folder`` on success, and survives a power cut if
    ``durable``. It is new, or was that of ``over``, with its files.

    Raises FileExistsError if ``folder`` exists.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} already exists")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    if over is None:
        partial.mkdir(parents=True)
    else:
        over.rename(partial)
    yield partial
    if durable:
        for path in [*partial.rglob("*"), partial]:
            _flush(path)
    partial.rename(folder)
    if durable:
        _flush(folder.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
