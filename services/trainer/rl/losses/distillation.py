"""Divergences between the token distributions of a teacher and a student, in nats."""

import math

import torch
from torch import Tensor


def generalized_jsd(teacher: Tensor, student: Tensor, beta: float) -> Tensor:
    """Generalized Jensen-Shannon divergence (GKD, Agarwal et al. 2024, arXiv:2306.13649).

    ``beta`` 0 is KL(T || S), 1 is KL(S || T); in between beta KL(T || M) + (1 - beta) KL(S || M)
    with the mixture M = beta T + (1 - beta) S. ``teacher`` and ``student`` (m, v) are
    log-probabilities; -inf is allowed in the teacher. Returns (m,).
    """
    if beta == 0.0:
        return _kl(teacher, student)
    if beta == 1.0:
        return _kl(student, teacher)
    mixture = torch.logaddexp(teacher + math.log(beta), student + math.log1p(-beta))
    return beta * _kl(teacher, mixture) + (1.0 - beta) * _kl(student, mixture)


def with_remainder(log_probs: Tensor) -> Tensor:
    """Append the probability of all other tokens as one outcome: (m, k) becomes (m, k + 1).

    The divergence of two such distributions is a lower bound of that of the full ones (data
    processing inequality), and 0 only if the student matches the teacher on all k tokens.
    """
    named = log_probs.logsumexp(-1, keepdim=True)
    return torch.cat([log_probs, _log1mexp(named.clamp(max=-_LEAST))], -1)


_LEAST = 1e-6
"""The remainder is at least this, so that rounding cannot make it negative."""


def _log1mexp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x < 0, accurate at both ends."""
    near_zero = x > -math.log(2.0)
    small = torch.where(near_zero, x, -1.0)
    large = torch.where(near_zero, -1.0, x)
    return torch.where(near_zero, (-torch.expm1(small)).log(), torch.log1p(-large.exp()))


def _kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of log-probabilities (m, v); outcomes impossible under p contribute nothing."""
    possible = p > -torch.inf
    terms = p.exp() * (torch.where(possible, p, 0.0) - torch.where(possible, q, 0.0))
    return terms.sum(-1)
