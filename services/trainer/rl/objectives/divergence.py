"""How far the policy is from a reference: estimated from the log-probabilities of samples."""

from torch import Tensor


def k3(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """exp(ref - lp) - (ref - lp) - 1, an estimate of KL(policy || reference) that is never
    negative; all tensors (m,)."""
    difference = reference_log_probs - log_probs
    return difference.exp() - difference - 1.0


def penalised_rewards(
    rewards: Tensor, log_probs: Tensor, reference_log_probs: Tensor, coefficient: float
) -> Tensor:
    """Take coefficient * (log-prob - reference) off the reward of each token; all (m,)."""
    return rewards - coefficient * (log_probs - reference_log_probs)
