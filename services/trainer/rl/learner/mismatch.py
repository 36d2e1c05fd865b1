"""How far the engine that sampled and the learner that trains disagree."""

import torch
from torch import Tensor

from services.trainer.rl.learner.micro_batches import TrainedTokens
from services.trainer.rl.losses import k3

FAR = 0.999
"""Share of tokens that ``sampler_difference_p999`` bounds."""


def sampler_mismatch(log_probs: Tensor, tokens: TrainedTokens) -> dict[str, float]:
    """``|log p - log p_sampler|`` in nats over the tokens that an engine sampled: its mean and the
    bound of all but one token in a thousand; and KL(sampler || learner), estimated on them.

    ``log_probs`` (m,) are the learner's before the update; tokens of which they are NaN do not
    count. Empty if none does.
    """
    own, sampler = log_probs.cpu(), tokens.sampler_log_probs
    compared = sampled_tokens(tokens) & ~own.isnan()
    if not compared.any():
        return {}
    own, sampler = own[compared], sampler[compared]
    differences = (own - sampler).abs()
    place = max(1, round(FAR * len(differences)))
    return {
        # The sampler drew the tokens, so that the learner is the reference.
        "sampler_kl": float(k3(sampler, own).mean()),
        "sampler_difference_mean": float(differences.mean()),
        "sampler_difference_p999": float(differences.kthvalue(place).values),
    }


def sampled_tokens(tokens: TrainedTokens) -> Tensor:
    """Which of the trained tokens an engine sampled, (m,); the others are of the data."""
    parts = [torch.from_numpy(each.policy_versions[each.mask] >= 0) for each in tokens.sequences]
    return torch.cat([torch.zeros(0, dtype=torch.bool), *parts])
