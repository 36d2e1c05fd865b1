"""Weights and the optimiser's state as whole tensors by name, however they lie in memory."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from services.trainer.online.learner.language_model import LanguageModel

WEIGHTS = "weights.safetensors"
MOMENTS = "optimiser.safetensors"
DESCRIPTION = "learner.json"
FORMAT = 1

_OF = "/"


@dataclass(frozen=True)
class Snapshot:
    """What is trained, in full precision, and the moments of the optimiser."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]

    def write(self, folder: Path) -> None:
        """Write into a new folder."""
        folder.mkdir()
        save_file(self.weights, folder / WEIGHTS)
        save_file(self.moments, folder / MOMENTS)
        (folder / DESCRIPTION).write_text(json.dumps({"format": FORMAT}) + "\n")


def snapshot(model: LanguageModel, optimiser: Any) -> Snapshot:
    """The present state; all processes call this at once."""
    weights, moments = {}, {}
    for parameter, tensor in model.named_parameters():
        if tensor.requires_grad:
            weights[parameter] = _whole(tensor)
            for name, moment in optimiser.state[tensor].items():
                moments[f"{parameter}{_OF}{name}"] = _whole(moment)
    return Snapshot(weights, moments)


def restore(folder: Path, model: LanguageModel, optimiser: Any) -> None:
    """Go on from a snapshot; raises ValueError for one of another format, KeyError for one of
    another model. All processes call this at once."""
    description = json.loads((folder / DESCRIPTION).read_bytes())
    if description["format"] != FORMAT:
        raise ValueError(f"{folder} has format {description['format']}, not {FORMAT}")
    weights = load_file(folder / WEIGHTS)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in parameters.items():
            if tensor.requires_grad:
                tensor.copy_(_laid_like(tensor, weights[name]))
    for key, moment in load_file(folder / MOMENTS).items():
        parameter, _, name = key.rpartition(_OF)
        tensor = parameters[parameter]
        # The count of steps is a number, which optimisers keep on the CPU.
        laid = _laid_like(tensor, moment) if moment.shape == tensor.shape else moment
        optimiser.state[tensor][name] = laid


def policy_weights(model: LanguageModel) -> dict[str, Tensor]:
    """The weights of the policy, of one with an adapter the adapter's; all processes call this
    at once."""
    if hasattr(model.model, "peft_config"):
        trained = model.model.named_parameters()
        return {name: _whole(tensor) for name, tensor in trained if tensor.requires_grad}
    return {name: _whole(tensor) for name, tensor in model.model.state_dict().items()}


def _whole(tensor: Tensor) -> Tensor:
    """A copy on the CPU, also of a tensor that is spread over processes."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().to("cpu", copy=True).contiguous()


def _laid_like(tensor: Tensor, whole: Tensor) -> Tensor:
    """A whole tensor, on the device of another one and spread as it is."""
    placed = whole.to(tensor.device)
    if isinstance(tensor, DTensor):
        return distribute_tensor(placed, tensor.device_mesh, tensor.placements)
    return placed
