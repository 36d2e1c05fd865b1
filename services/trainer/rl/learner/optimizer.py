"""AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), with separate learning rates for policy and
critic."""

from typing import Any

import torch
from torch import Tensor

from services.contracts.online import OptimizerSettings
from services.trainer.errors import Diverged
from services.trainer.rl.learner.model import LanguageModel

POLICY = "grad_norm"
CRITIC = "critic_grad_norm"


def build_optimizer(
    model: LanguageModel, settings: OptimizerSettings, critic_rate: float | None
) -> torch.optim.Optimizer:
    """AdamW over the trainable parameters; groups are named after their gradient-norm metric."""
    critic = [] if model.critic is None else list(model.critic.parameters())
    of_critic = {id(parameter) for parameter in critic}
    policy = [p for p in model.parameters() if p.requires_grad and id(p) not in of_critic]
    groups: list[dict[str, Any]] = [
        {"params": policy, "name": POLICY, "peak": settings.learning_rate}
    ]
    if critic_rate is not None:
        trained = [p for p in critic if p.requires_grad]
        groups.append({"params": trained, "name": CRITIC, "peak": critic_rate})
    return torch.optim.AdamW(
        groups,
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        weight_decay=settings.weight_decay,
    )


def set_learning_rates(optimizer: Any, step: int, warmup_steps: int) -> None:
    """Set the learning rates of update ``step``: linear warmup, then constant."""
    share = min(1.0, (step + 1) / max(1, warmup_steps))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


def clip_gradients(optimizer: Any, max_norm: float) -> dict[str, float]:
    """Clip the gradient of each group to ``max_norm``; return the norms before.

    Raises `Diverged` for a non-finite norm: the weights are still intact then.
    """
    norms: dict[str, float] = {}
    for group in optimizer.param_groups:
        norm = torch.nn.utils.clip_grad_norm_(group["params"], max_norm)
        norms[group["name"]] = _whole(norm).item()
    if not all(torch.isfinite(torch.tensor(list(norms.values())))):
        raise Diverged(f"the gradient norm is not finite: {norms}")
    return norms


def _whole(norm: Tensor) -> Tensor:
    """The value of a norm, sharded or not."""
    full_tensor = getattr(norm, "full_tensor", None)
    return norm if full_tensor is None else full_tensor()
