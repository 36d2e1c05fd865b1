"""How far the engine that sampled and the learner that trains disagree."""

import torch
from torch import Tensor

from services.trainer.rl.learner.micro_batches import TrainedTokens

FAR = 0.999
"""Share of tokens that ``sampler_difference_p999`` bounds."""


def sampler_mismatch(log_probs: Tensor, tokens: TrainedTokens) -> dict[str, float]:
    """``|log p - log p_sampler|`` in nats over the tokens that an engine sampled: its mean and the
    bound of all but one token in a thousand. ``log_probs`` (m,) are the learner's before the
    update. Empty if no engine sampled any."""
    differences = (log_probs.cpu() - tokens.sampler_log_probs).abs()[sampled_tokens(tokens)]
    if not len(differences):
        return {}
    place = max(1, round(FAR * len(differences)))
    return {
        "sampler_difference_mean": float(differences.mean()),
        "sampler_difference_p999": float(differences.kthvalue(place).values),
    }


def sampled_tokens(tokens: TrainedTokens) -> Tensor:
    """Which of the trained tokens an engine sampled, (m,); the others are of the data."""
    parts = [torch.from_numpy(each.policy_versions[each.mask] >= 0) for each in tokens.sequences]
    return torch.cat([torch.zeros(0, dtype=torch.bool), *parts])
