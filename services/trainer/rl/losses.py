"""Advantages, losses and divergences: pure functions of tensors.

Tokens are ragged: a tensor over tokens has shape (m,) and concatenates the trained tokens of all
sequences, without prompts and tool results; ``sequence_of`` (m,) is the sequence of each, from 0.
Log-probabilities, entropies and divergences are in nats.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.errors import InvalidRequest
from services.contracts.training.policy_loss import (
    AdvantageEstimator,
    Aggregation,
    KlEstimator,
    RatioLevel,
)

EPSILON = 1e-6


def group_advantages(rewards: Tensor, groups: Tensor, estimator: AdvantageEstimator) -> Tensor:
    """Group-relative advantages.

    GRPO (Shao et al. 2024, arXiv:2402.03300): (r - mean) / (std + 1e-6), with the unbiased standard
    deviation (n - 1). Dr. GRPO (Liu et al. 2025, arXiv:2503.20783): r - mean. RLOO (Ahmadian et al.
    2024, arXiv:2402.14740): r - mean of the others. MaxRL (arXiv:2602.02710): (r - mean) / mean, 0
    where the mean is. REINFORCE++ (Hu 2025, arXiv:2501.03262): (r - mean) / (std + 1e-6) over the
    batch, whatever the groups. ``rewards`` (s,); ``groups`` (s,), equal for samples of one prompt.
    A sample alone in its group has advantage 0. Returns (s,). Raises `InvalidRequest` for a
    negative reward with MaxRL: its mean is then no measure of how hard a prompt is, and a mean near
    0 makes advantages of any size.
    """
    if estimator is AdvantageEstimator.MAX_RL and bool((rewards < 0).any()):
        raise InvalidRequest(
            "the advantage max_rl is for rewards that are not negative; a sample has "
            f"{float(rewards.min()):g}",
            code="negative_reward",
        )
    if estimator is AdvantageEstimator.REINFORCE_PLUS_PLUS:
        return whiten(rewards)
    names, group_of = torch.unique(groups, return_inverse=True)
    counts = torch.bincount(group_of, minlength=len(names)).to(rewards.dtype)
    means = torch.zeros_like(counts).index_add_(0, group_of, rewards) / counts
    deviations = rewards - means[group_of]
    match estimator:
        case AdvantageEstimator.DR_GRPO:
            return deviations
        case AdvantageEstimator.RLOO:
            others = (counts - 1).clamp(min=1)
            return deviations * (counts / others)[group_of]
        case AdvantageEstimator.MAX_RL:
            return torch.where(means > 0, 1.0 / means, 0.0)[group_of] * deviations
    squares = torch.zeros_like(counts).index_add_(0, group_of, deviations.square())
    std = (squares / (counts - 1).clamp(min=1)).sqrt()
    return deviations / (std[group_of] + EPSILON)


def whiten(values: Tensor) -> Tensor:
    """Shift and scale to mean 0 and unbiased variance 1; constant values become 0."""
    if len(values) < 2:
        return torch.zeros_like(values)
    return (values - values.mean()) / (values.std() + EPSILON)


def gae_advantages(
    rewards: Tensor,
    values: Tensor,
    sequence_of: Tensor,
    *,
    gamma: float,
    lambda_: float,
) -> tuple[Tensor, Tensor]:
    """Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

    The recursion runs over trained tokens only: tool results between two of them are skipped, and a
    token's successor is the next trained one. ``rewards`` and ``values`` (m,) are the reward of
    each token and the value of the state before it. The value after the last token is 0, for
    truncated responses too: the critic is never trained there, so that bootstrapping from it would
    feed its own error back. Returns advantages and returns (value targets), both (m,).
    """
    rows, columns, shape = _grid(sequence_of)
    padded_rewards, padded_values = rewards.new_zeros(shape), values.new_zeros(shape)
    padded_rewards[rows, columns] = rewards
    padded_values[rows, columns] = values
    lengths = torch.bincount(sequence_of, minlength=shape[0])
    advantages = torch.zeros_like(padded_values)
    following = values.new_zeros(shape[0])
    next_values = following
    for column in range(shape[1] - 1, -1, -1):
        inside = column < lengths
        value = padded_values[:, column]
        delta = padded_rewards[:, column] + gamma * next_values - value
        following = torch.where(inside, delta + gamma * lambda_ * following, following)
        next_values = torch.where(inside, value, next_values)
        advantages[:, column] = following
    ragged = advantages[rows, columns]
    return ragged, ragged + values


def _grid(sequence_of: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Row and column of each token in a table with one row per sequence, and its shape."""
    lengths = torch.bincount(sequence_of)
    starts = lengths.cumsum(0) - lengths
    columns = torch.arange(len(sequence_of), device=sequence_of.device) - starts[sequence_of]
    return sequence_of, columns, (len(lengths), int(lengths.max()) if len(lengths) else 0)


@dataclass(frozen=True)
class ValueLoss:
    """Losses (m,), and a boolean mask (m,): tokens whose clipped error was the larger one."""

    losses: Tensor
    clipped: Tensor


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None
) -> ValueLoss:
    """Half the squared error, clipped as in PPO (Schulman et al. 2017, arXiv:1707.06347): the
    larger of the error and that of the value clipped to within ``clip`` of its old one. All tensors
    (m,)."""
    free = (values - returns).square()
    if clip is None:
        return ValueLoss(0.5 * free, torch.zeros_like(free, dtype=torch.bool))
    near = old_values + (values - old_values).clamp(-clip, clip)
    clipped = (near - returns).square()
    return ValueLoss(0.5 * torch.maximum(free, clipped), clipped > free)


def terminal_rewards(rewards: Tensor, lengths: Tensor) -> Tensor:
    """Assign each sequence's reward to its last trained token.

    ``rewards`` and ``lengths`` (s,); sequences without trained tokens contribute nothing. Returns
    (m,).
    """
    spread = rewards.new_zeros(int(lengths.sum()))
    ends = lengths.cumsum(0) - 1
    spread[ends[lengths > 0]] = rewards[lengths > 0]
    return spread


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns), population variances; 0 if the returns are
    constant. Below 0 is worse than a constant prediction."""
    variance = returns.var(correction=0)
    if variance == 0:
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)


MAX_LOG_RATIO, MAX_K3 = 20.0, 10.0
"""Bounds of log-ratios and of k3, as in verl: one improbable token must not dominate the loss, or
overflow. The gradient of an infinite ratio would be NaN even where a mask leaves the token out."""
MAX_KL_RATIO = 10.0
"""Bound of the ratio that weighs a divergence: at the bound of log-ratios, one token of a sampler
that is not the policy would weigh as much as 5e8 others."""


@dataclass(frozen=True)
class Clipping:
    """Clip ratios to [1 - ``low``, 1 + ``high``]; with a negative advantage, ``dual`` bounds the
    loss by -A * ``dual`` (dual-clip PPO, Ye et al. 2020, arXiv:1912.09729)."""

    low: float
    high: float
    dual: float | None = None


@dataclass(frozen=True)
class Surrogate:
    """Losses (m,), and boolean masks (m,): tokens whose gradient is clipped."""

    losses: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    clipped_dual: Tensor


def clipped_surrogate_loss(ratios: Tensor, advantages: Tensor, clipping: Clipping) -> Surrogate:
    """max(-A r, -A clip(r, 1 - low, 1 + high)) per token; all tensors (m,).

    Schulman et al. 2017, arXiv:1707.06347; separate bounds: DAPO (clip-higher), Yu et al. 2025,
    arXiv:2503.14476.
    """
    free = -advantages * ratios
    clipped = -advantages * ratios.clamp(1.0 - clipping.low, 1.0 + clipping.high)
    losses = torch.maximum(free, clipped)
    cut = clipped > free
    capped = torch.zeros_like(cut)
    if clipping.dual is not None:
        cap = -advantages * clipping.dual
        capped = (advantages < 0) & (losses > cap)
        losses = torch.where(capped, cap, losses)
    return Surrogate(losses, cut & (advantages < 0), cut & (advantages > 0), capped)


def importance_ratios(
    log_probs: Tensor, old_log_probs: Tensor, sequence_of: Tensor, level: RatioLevel
) -> Tensor:
    """exp(log p - log p_old), per token or per sequence; all tensors (m,).

    A sequence ratio is the geometric mean over its tokens, assigned to each of them (GSPO, Zheng et
    al. 2025, arXiv:2507.18071); within a sequence, each token's has the sequence's value and the
    gradient of the token alone (GSPO-token, equation 14 there). The exponent is cut at
    +-`MAX_LOG_RATIO`; a ratio beyond has no gradient but that of the token alone.
    """
    log_ratios = log_probs - old_log_probs
    if level is not RatioLevel.TOKENWISE:
        sequences = int(sequence_of.max()) + 1 if len(sequence_of) else 0
        sums = log_ratios.new_zeros(sequences).index_add(0, sequence_of, log_ratios)
        lengths = torch.bincount(sequence_of, minlength=sequences).clamp(min=1)
        log_ratios = (sums / lengths)[sequence_of]
    cut = log_ratios.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    # What is NaN keeps its gradient, which ends the training; clamped, it would be zero.
    log_ratios = torch.where(log_ratios.isnan(), log_ratios, cut)
    if level is RatioLevel.WITHIN_SEQUENCE:
        return log_ratios.detach().exp() * (log_probs - log_probs.detach()).exp()
    return log_ratios.exp()


def tis_weights(old_log_probs: Tensor, sampler_log_probs: Tensor, cap: float) -> Tensor:
    """Truncated importance sampling: min(exp(old - sampler), cap), detached; all tensors (m,).

    Corrects for a sampler that is not exactly the old policy: another implementation, or older
    weights (Ionides 2008; Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You
    Off-Policy RL Training").
    """
    return (old_log_probs - sampler_log_probs).detach().exp().clamp(max=cap)


def k3(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """exp(d) - 1 - d with d = log p_ref - log p: a non-negative estimate of KL(policy || reference)
    on samples of the policy, in nats (Schulman 2020, "Approximating KL Divergence"), unbiased
    within its clamps. All tensors (m,)."""
    difference = (reference_log_probs - log_probs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return (difference.exp() - difference - 1.0).clamp(max=MAX_K3)


def kl_estimates(
    log_probs: Tensor, drawn_log_probs: Tensor, reference_log_probs: Tensor, estimator: KlEstimator
) -> Tensor:
    """Estimates of KL(policy || reference) on samples whose log-probabilities, by the distribution
    that they were drawn from, are ``drawn_log_probs``; all (m,).

    k1, k2 and k3 as in Schulman 2020; the gradient of k1 is 0 on average, that of k2 is the
    divergence's where the policy has not moved. unbiased: k3 times the ratio p / p_drawn, of which
    the gradient is a part (DeepSeek-V3.2, arXiv:2512.02556), truncated at `MAX_KL_RATIO` as
    importance weights are (Ionides 2008). k1 in rewards is InstructGPT's penalty (Ouyang et al.
    2022, arXiv:2203.02155).
    """
    match estimator:
        case KlEstimator.K1:
            return log_probs - reference_log_probs
        case KlEstimator.K2:
            return 0.5 * (log_probs - reference_log_probs).square()
        case KlEstimator.K3:
            return k3(log_probs, reference_log_probs)
        case KlEstimator.UNBIASED:
            log_ratios = log_probs - drawn_log_probs
            ratios = log_ratios.clamp(-MAX_LOG_RATIO, math.log(MAX_KL_RATIO)).exp()
            return ratios * k3(log_probs, reference_log_probs)


def token_weights(
    lengths: Tensor, aggregation: Aggregation, max_length: int, sample_of: Tensor | None = None
) -> Tensor:
    """The weight of each trained token of a global batch in the loss.

    The loss is the weighted sum of token losses; as the weights cover the whole batch, it does not
    depend on how the batch is split into micro-batches and processes. token-mean: 1 / tokens
    (DAPO); seq-mean-token-mean: 1 / (length * sequences) (GRPO); seq-mean-token-sum-norm: 1 /
    (sequences * ``max_length``) (Dr. GRPO). ``lengths`` (s,) counts the trained tokens of the
    sequences; empty ones are not counted. Those of one sample of ``sample_of`` (s,) count as one,
    whose length is their sum. Returns (m,), float32.
    """
    whole = lengths
    if sample_of is not None:
        whole = torch.zeros_like(lengths).index_add_(0, sample_of, lengths)
    tokens = whole.sum().clamp(min=1)
    samples = (whole > 0).sum().clamp(min=1)
    match aggregation:
        case Aggregation.MEAN_OF_TOKENS:
            weights = torch.ones_like(whole, dtype=torch.float64) / tokens
        case Aggregation.MEAN_OF_SEQUENCE_MEANS:
            weights = 1.0 / (whole.clamp(min=1).double() * samples)
        case Aggregation.MEAN_OF_SEQUENCE_SUMS:
            weights = torch.ones_like(whole, dtype=torch.float64) / (samples * max_length)
    of_sequence = weights if sample_of is None else weights[sample_of]
    return of_sequence.repeat_interleave(lengths).float()


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
