"""Weights and the optimiser's state as whole tensors by name, however they lie in memory."""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from services.trainer.rl.learner.language_model import LanguageModel
from services.trainer.rl.learner.strategies import ParameterState, Strategy, copied

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


def snapshot(model: LanguageModel, strategy: Strategy) -> Snapshot:
    """The present state; all processes call this at once."""
    weights, moments = {}, {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            weights[name] = strategy.whole(parameter)
            for kind, moment in strategy.moments(parameter).items():
                moments[f"{name}{_OF}{kind}"] = moment
    return Snapshot(weights, moments)


def restore(folder: Path, model: LanguageModel, strategy: Strategy) -> None:
    """Go on from a snapshot; raises ValueError for one of another format, KeyError for one of
    another model. All processes call this at once."""
    description = json.loads((folder / DESCRIPTION).read_bytes())
    if description["format"] != FORMAT:
        raise ValueError(f"{folder} has format {description['format']}, not {FORMAT}")
    moments: dict[str, dict[str, Tensor]] = {}
    for key, moment in load_file(folder / MOMENTS).items():
        name, _, kind = key.rpartition(_OF)
        moments.setdefault(name, {})[kind] = moment
    weights = load_file(folder / WEIGHTS)
    strategy.restore(
        [
            ParameterState(parameter, weights[name], moments.get(name, {}))
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]
    )


def policy_weights(model: LanguageModel, strategy: Strategy) -> dict[str, Tensor]:
    """The weights of the policy, of one with an adapter the adapter's; all processes call this
    at once."""
    policy = model.model
    parameters = dict(policy.named_parameters(remove_duplicate=False))
    names = list(policy.state_dict())
    if hasattr(policy, "peft_config"):
        names = [name for name, parameter in parameters.items() if parameter.requires_grad]
    buffers = dict(policy.named_buffers())
    return {
        name: strategy.whole(parameters[name]) if name in parameters else copied(buffers[name])
        for name in names
    }
