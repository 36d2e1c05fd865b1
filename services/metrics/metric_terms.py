"""The metrics that jobs report: what each means, its unit, and which values are usual.

The dashboard groups and explains its curves by this table, and the glossary contains it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Group = Literal["objective", "reward", "lengths", "tools", "policy", "speed", "system"]
"""What a metric is about; in the order in which groups are shown."""

PREFIXES = {
    "eval_": "on the validation file",
    "rollout_": "of all samples that finished since the last step, trained on or not",
}
"""Beginnings of names that have the meaning of the rest, and what they add to it."""


@dataclass(frozen=True)
class MetricTerm:
    """A metric. ``usual`` hints at healthy values; ``rank`` orders the few that decide."""

    name: str
    group: Group
    meaning: str
    unit: str = ""
    usual: str = ""
    rank: int | None = None


_SECONDS = "s"
_SHARE = "share"
_TOKENS = "tokens"
_NATS = "nats"

METRIC_TERMS: Sequence[MetricTerm] = (
    MetricTerm(
        "loss",
        "objective",
        "Training loss, which is minimized",
        "",
        "falls, then levels off; of policy gradients it says little",
        2,
    ),
    MetricTerm(
        "eval_loss",
        "objective",
        "Loss on the validation file",
        "",
        "falls with the loss; a rise means overfitting",
        3,
    ),
    MetricTerm(
        "accuracy",
        "objective",
        "Share of predicted tokens or answers that are right",
        _SHARE,
        "rises",
        4,
    ),
    MetricTerm("learning_rate", "objective", "Learning rate of the optimizer"),
    MetricTerm(
        "grad_norm",
        "objective",
        "Norm of the gradient before clipping",
        "",
        "steady; zero means that nothing is learned, spikes that steps are too large",
        8,
    ),
    MetricTerm("epoch", "objective", "Passes over the training data"),
    MetricTerm("policy_loss", "objective", "Clipped surrogate loss of the policy"),
    MetricTerm("value_loss", "objective", "Squared error of the critic", "", "falls"),
    MetricTerm("value_mean", "objective", "Mean value that the critic predicts"),
    MetricTerm(
        "value_clip_fraction",
        "objective",
        "Tokens whose value error was clipped",
        _SHARE,
        "below 0.2",
    ),
    MetricTerm(
        "value_explained_variance",
        "objective",
        "Variance of the returns that the critic explains",
        _SHARE,
        "rises toward 1; below 0 the critic is worse than a constant",
    ),
    MetricTerm("errors", "objective", "Answers without a grade", "answers", "0"),
    MetricTerm("failed", "objective", "Requests without an answer", "requests", "0"),
    MetricTerm("reward", "reward", "Mean reward of the samples", "", "rises", 0),
    MetricTerm(
        "reward_std",
        "reward",
        "Standard deviation of the rewards",
        "",
        "above 0: equal rewards teach nothing",
        6,
    ),
    MetricTerm(
        "pass_rate",
        "reward",
        "Samples with at least the threshold's reward",
        _SHARE,
        "rises; most is learned between 0.2 and 0.8",
        1,
    ),
    MetricTerm(
        "unrewarded_rate",
        "reward",
        "Samples whose reward could not be computed",
        _SHARE,
        "below 0.02",
    ),
    MetricTerm(
        "overlong_penalty", "reward", "Mean penalty for answers near the length limit", "", "near 0"
    ),
    MetricTerm("advantage_mean", "reward", "Mean advantage of the tokens", "", "near 0"),
    MetricTerm(
        "advantage_std",
        "reward",
        "Standard deviation of the advantages",
        "",
        "above 0: at 0 every group had equal rewards",
    ),
    MetricTerm(
        "group_filter_rate", "reward", "Groups dropped for equal rewards", _SHARE, "below 0.5"
    ),
    MetricTerm("curriculum/seen", "reward", "Prompts whose pass rate is known", _SHARE, "rises"),
    MetricTerm(
        "curriculum/hard",
        "reward",
        "Seen prompts below a pass rate of 0.2",
        _SHARE,
    ),
    MetricTerm(
        "curriculum/learnable",
        "reward",
        "Seen prompts with a pass rate of 0.2 to 0.8",
        _SHARE,
        "above 0.2",
    ),
    MetricTerm(
        "curriculum/easy",
        "reward",
        "Seen prompts from a pass rate of 0.8",
        _SHARE,
        "rises",
    ),
    MetricTerm("curriculum/prioritized", "reward", "Draws by pass rate", _SHARE),
    MetricTerm("curriculum/replayed", "reward", "Draws that repeat a newly solved prompt", _SHARE),
    MetricTerm(
        "response_length",
        "lengths",
        "Tokens of a response, tool results included",
        _TOKENS,
        "steady; a steep rise or fall is often a reward that is gamed",
        5,
    ),
    MetricTerm(
        "sampled_length", "lengths", "Tokens of a response that the policy sampled", _TOKENS
    ),
    MetricTerm("cut_off_rate", "lengths", "Answers cut off at a limit", _SHARE, "below 0.1"),
    MetricTerm("turns", "lengths", "Replies of the model in a sample", "turns"),
    MetricTerm("tool_calls", "tools", "Tool calls of a sample", "calls"),
    MetricTerm("tool_failure_rate", "tools", "Tool calls that failed", _SHARE, "below 0.2"),
    MetricTerm(
        "malformed_calls",
        "tools",
        "Tool calls of a sample that could not be parsed",
        "calls",
        "near 0",
    ),
    MetricTerm("calls_per_trajectory", "tools", "Tool calls of a trajectory", "calls"),
    MetricTerm("call_failure_rate", "tools", "Tool calls that failed", _SHARE, "below 0.2"),
    MetricTerm(
        "entropy",
        "policy",
        "Entropy of the policy per token",
        _NATS,
        "falls slowly; near 0 nothing new is tried",
        7,
    ),
    MetricTerm(
        "kl", "policy", "Divergence from the reference model per token (k3)", _NATS, "grows slowly"
    ),
    MetricTerm(
        "sampler_kl",
        "policy",
        "KL(sampler || learner) per token, before the update (k3)",
        _NATS,
        "below 0.01",
    ),
    MetricTerm(
        "sampler_difference_mean",
        "policy",
        "Mean difference of log-probabilities between sampler and learner before the update, "
        "per token",
        _NATS,
        "near 0 for equal weights",
    ),
    MetricTerm(
        "sampler_difference_p999",
        "policy",
        "Difference between sampler and learner before the update that one token in a thousand "
        "exceeds",
        _NATS,
        "below 1",
    ),
    MetricTerm(
        "covariant_fraction",
        "policy",
        "Tokens that clip_cov or kl_cov treats apart",
        _SHARE,
    ),
    MetricTerm(
        "masked_fraction",
        "policy",
        "Tokens that a mask leaves out of the loss",
        _SHARE,
        "below 0.1",
    ),
    MetricTerm("log_prob_mean", "policy", "Mean log-probability of the sampled tokens", _NATS),
    MetricTerm("ratio_mean", "policy", "Mean importance ratio", "", "near 1"),
    MetricTerm(
        "clip_fraction_low",
        "policy",
        "Tokens clipped at the lower bound of the ratio",
        _SHARE,
        "below 0.2",
    ),
    MetricTerm(
        "clip_fraction_high",
        "policy",
        "Tokens clipped at the upper bound of the ratio",
        _SHARE,
        "below 0.2",
    ),
    MetricTerm(
        "dual_clip_fraction",
        "policy",
        "Tokens clipped by the second bound of dual-clip PPO",
        _SHARE,
        "near 0",
    ),
    MetricTerm(
        "importance_weight_mean",
        "policy",
        "Mean weight that corrects for the difference of sampler and learner",
        "",
        "near 1",
    ),
    MetricTerm("importance_weight_max", "policy", "Largest such weight", "", "below 2"),
    MetricTerm(
        "importance_weight_capped_fraction", "policy", "Weights at their cap", _SHARE, "below 0.05"
    ),
    MetricTerm(
        "staleness",
        "policy",
        "Updates since the oldest token of a sample was sampled",
        "updates",
        "at most max_staleness",
    ),
    MetricTerm(
        "staleness_max",
        "policy",
        "Largest staleness of the batch",
        "updates",
        "at most max_staleness",
    ),
    MetricTerm(
        "versions_per_sample", "policy", "Policy versions that sampled a response", "versions"
    ),
    MetricTerm("version", "policy", "Updates so far", "updates"),
    MetricTerm(
        "sync_difference",
        "policy",
        "Largest difference of log-probabilities after a weight sync",
        _NATS,
        "below 0.1",
    ),
    MetricTerm(
        "tokens_per_second",
        "speed",
        "Tokens trained per second; of evaluations, tokens sampled",
        "tokens/s",
    ),
    MetricTerm("samples_per_second", "speed", "Rows trained per second", "rows/s"),
    MetricTerm(
        "real_token_share",
        "speed",
        "Tokens computed in a step that are no padding",
        _SHARE,
        "1 where the model takes packed rows; above 0.95",
    ),
    MetricTerm("generation_tokens_per_second", "speed", "Tokens sampled per second", "tokens/s"),
    MetricTerm("step_seconds", "speed", "Time of a step", _SECONDS),
    MetricTerm("rollout_seconds", "speed", "Wait of a step for rollouts", _SECONDS),
    MetricTerm("generate_seconds", "speed", "Wait for the model's replies", _SECONDS),
    MetricTerm("tools_seconds", "speed", "Wait for tools", _SECONDS),
    MetricTerm("reward_seconds", "speed", "Wait for rewards", _SECONDS),
    MetricTerm(
        "waiting_seconds", "speed", "Time of a step in which nothing was done", _SECONDS, "near 0"
    ),
    MetricTerm(
        "engine_idle_share",
        "speed",
        "Time of a step in which the engine sampled for no rollout, pauses included",
        _SHARE,
        "below 0.05 with max_staleness 1, where sampling is the bound",
    ),
    MetricTerm(
        "learner_idle_share",
        "speed",
        "Time of a step in which the learner had nothing to do",
        _SHARE,
        "what rollouts take longer than updates",
    ),
    MetricTerm(
        "accepted_length",
        "speed",
        "Tokens of a sequence per forward pass of an engine that drafts",
        _TOKENS,
        "above 1.2; 1 means that no draft is accepted",
    ),
    MetricTerm("draft_acceptance_rate", "speed", "Drafted tokens that the policy accepted", _SHARE),
    MetricTerm(
        "draft_speedup",
        "speed",
        "Sampling speed with drafts over that without, when they were compared",
        usual="from 1.05 the engine goes on with drafts",
    ),
    MetricTerm("update_seconds", "speed", "Time of the update", _SECONDS),
    MetricTerm("scoring_seconds", "speed", "Time of scoring tokens before the update", _SECONDS),
    MetricTerm(
        "forward_backward_seconds", "speed", "Time of forward and backward passes", _SECONDS
    ),
    MetricTerm("sync_seconds", "speed", "Time of the weight sync", _SECONDS),
    MetricTerm("paused_seconds", "speed", "Time for which a weight sync paused sampling", _SECONDS),
    MetricTerm("evaluation_seconds", "speed", "Time of an evaluation", _SECONDS),
    MetricTerm("checkpoint_seconds", "speed", "Time of saving a checkpoint", _SECONDS),
    MetricTerm("model_seconds", "speed", "Time of a sample for the model's replies", _SECONDS),
    MetricTerm("tool_seconds", "speed", "Time of a sample for tools", _SECONDS),
    MetricTerm("sample_failure_rate", "system", "Samples that failed", _SHARE, "below 0.05"),
    MetricTerm(
        "group_failure_rate", "system", "Groups without usable samples", _SHARE, "below 0.05"
    ),
    MetricTerm(
        "samples_left_out", "system", "Samples lost to failing infrastructure", "samples", "0"
    ),
    MetricTerm(
        "infrastructure_failures",
        "system",
        "Failures of infrastructure, those that a repeat repaired included",
        "failures",
        "0",
    ),
    MetricTerm("batch_groups", "system", "Groups of the batch", "groups"),
    MetricTerm("batch_samples", "system", "Samples of the batch", "samples"),
    MetricTerm("trained_tokens", "system", "Tokens of the batch with a loss", _TOKENS),
    MetricTerm("sequences", "system", "Sequences of the batch", "sequences"),
    MetricTerm("prompts_drawn", "system", "Prompts drawn so far", "prompts"),
    MetricTerm("prompts_skipped", "system", "Prompts skipped so far", "prompts", "0"),
)
