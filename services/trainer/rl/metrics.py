"""The metrics of a step, and warnings about tools that keep failing."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from statistics import fmean, pstdev
from typing import TypeVar

from services.contracts.rollouts.sources import source_of
from services.contracts.rollouts.trajectories import TRUNCATED, Trajectory
from services.rollouts.activity import Activity
from services.trainer.rl.groups import BatchBuilder, Group, sampled_versions
from services.trainer.rl.scheduler import RolloutStats
from services.trainer.rl.spec import PassThreshold
from services.trainer.rl.weight_sync import PolicyLearner, SyncedEngine

Result = TypeVar("Result")
MOST_SOURCES = 100
"""Sources that metrics tell apart; a file whose rows all name another one has none."""


class StepClock:
    """Splits the wall-clock time of a step into its parts."""

    def __init__(self) -> None:
        self._begun = _now()
        self._parts: dict[str, float] = {}
        self._rollouts = 0.0

    async def time(self, part: str, work: Awaitable[Result]) -> Result:
        """Await a part of the step and record its time."""
        begun = _now()
        try:
            return await work
        finally:
            self._add(part, _now() - begun)

    async def wait_for_rollouts(self, activity: Activity, work: Awaitable[Result]) -> Result:
        """Await rollouts, and record as parts what they were doing meanwhile."""
        begun, before = _now(), activity.seconds()
        try:
            return await work
        finally:
            self._rollouts += _now() - begun
            for phase, seconds in activity.seconds().items():
                self._add(phase.value, seconds - before[phase])

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return _now() - self._begun

    def metrics(self) -> dict[str, float]:
        """Seconds of each part, of waiting, and of the step, which is the sum of these; beside them
        ``rollout_seconds``, the whole wait for rollouts.

        Waiting is the time in which nothing was recorded: the learner had nothing to do, and no
        rollout was generated, called a tool or was scored.
        """
        step = self.seconds
        parts = {f"{part}_seconds": seconds for part, seconds in self._parts.items()}
        return {
            **parts,
            "waiting_seconds": max(0.0, step - sum(parts.values())),
            "rollout_seconds": self._rollouts,
            "step_seconds": step,
        }

    def _add(self, part: str, seconds: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + seconds


class IdleShares:
    """The shares of a step in which the engine sampled for no rollout, and in which the learner had
    no request."""

    def __init__(self, engine: SyncedEngine, learner: PolicyLearner) -> None:
        self._engine = engine
        self._learner = learner
        self._since = self._read()

    def take(self) -> dict[str, float]:
        """The metrics since the last call, or since the beginning."""
        before, self._since = self._since, self._read()
        passed, engine, learner = (
            now - then for now, then in zip(self._since, before, strict=True)
        )
        if not passed:
            return {}
        return {
            "engine_idle_share": max(0.0, 1.0 - engine / passed),
            "learner_idle_share": max(0.0, 1.0 - learner / passed),
        }

    def _read(self) -> tuple[float, float, float]:
        return _now(), self._engine.sampling_seconds, self._learner.busy_seconds


def _now() -> float:
    return asyncio.get_running_loop().time()


def rollout_metrics(stats: RolloutStats, pass_threshold: PassThreshold | None) -> dict[str, float]:
    """Metrics of the rollouts finished since the last step, trained on or not.

    The names of sample metrics start with ``rollout_``. A sample passes at ``pass_threshold``;
    None without rewards.
    """
    tokens = sum(sum(s.policy_mask) for s in stats.samples if not s.finish_reason.is_failure)
    metrics = {
        "group_filter_rate": stats.filtered / stats.groups if stats.groups else 0.0,
        "group_failure_rate": stats.failed / stats.groups if stats.groups else 0.0,
    }
    metrics |= loss_metrics(stats.samples)
    for name, value in sample_metrics(stats.samples, pass_threshold).items():
        metrics[f"rollout_{name}"] = value
    if stats.seconds:
        metrics["generation_tokens_per_second"] = tokens / stats.seconds
    return metrics


def loss_metrics(rollouts: Sequence[Trajectory]) -> dict[str, float]:
    """What the infrastructure failed at: the samples left out, and failures by source, those that a
    repeat repaired included."""
    failures: Counter[str] = Counter()
    for rollout in rollouts:
        failures.update(rollout.infrastructure_failures)
    by_source = {f"infrastructure_failures/{name}": float(failures[name]) for name in failures}
    return {
        "samples_left_out": float(sum(rollout.left_out is not None for rollout in rollouts)),
        "infrastructure_failures": float(failures.total()),
        **dict(sorted(by_source.items())),
    }


def sample_metrics(
    trajectories: Sequence[Trajectory], pass_threshold: PassThreshold | None
) -> dict[str, float]:
    """Rewards, lengths and tool calls of samples; failed samples count only in
    ``sample_failure_rate``, and those left out in nothing."""
    rollouts = [each for each in trajectories if each.left_out is None]
    samples = [sample for sample in rollouts if not sample.finish_reason.is_failure]
    metrics: dict[str, float] = {}
    if rollouts:
        metrics["sample_failure_rate"] = 1.0 - len(samples) / len(rollouts)
    if not samples:
        return metrics
    if pass_threshold is not None:
        metrics |= _reward_metrics(samples, pass_threshold)
    calls = sum(sample.tool_calls for sample in samples)
    failed = sum(sample.failed_calls for sample in samples)
    sampled = [count for count in (sum(sample.policy_mask) for sample in samples) if count]
    return metrics | {
        "response_length": _mean(len(sample.response_token_ids) for sample in samples),
        "sampled_length": fmean(sampled) if sampled else 0.0,
        "cut_off_rate": _mean(sample.finish_reason in TRUNCATED for sample in samples),
        "turns": _mean(len(sample.turns) for sample in samples),
        "tool_calls": calls / len(samples),
        "tool_failure_rate": failed / calls if calls else 0.0,
        "malformed_calls": _mean(sum(len(t.malformed) for t in s.turns) for s in samples),
        "model_seconds": _mean(sample.model_seconds for sample in samples),
        "tool_seconds": _mean(sample.tool_seconds for sample in samples),
    }


def batch_metrics(
    groups: Sequence[Group],
    version: int,
    batches: BatchBuilder,
    pass_threshold: PassThreshold | None,
) -> dict[str, float]:
    """The batch that was trained on: its samples, size, overlong penalties and staleness.

    The staleness of a sample is the number of updates since its oldest token was sampled.
    """
    samples = [sample for group in groups for sample in group.usable]
    everything = [sample for group in groups for sample in group.samples.values()]
    metrics = sample_metrics(everything, pass_threshold)
    metrics |= {"batch_groups": len(groups), "batch_samples": len(samples)}
    if not samples:
        return metrics
    if batches.overlong is not None:
        metrics["overlong_penalty"] = _mean(batches.penalty(sample) for sample in samples)
    versions = [sampled_versions(sample) for sample in samples]
    oldest = [min(each, default=version) for each in versions]
    return metrics | {
        "staleness": version - fmean(oldest),
        "staleness_max": version - min(oldest),
        "versions_per_sample": _mean(len(set(each)) for each in versions),
    }


def _reward_metrics(
    samples: Sequence[Trajectory], pass_threshold: PassThreshold
) -> dict[str, float]:
    rewarded = [(sample, sample.reward) for sample in samples if sample.reward is not None]
    if not rewarded:
        return {}
    rewards = [reward for _, reward in rewarded]
    names = {name for sample, _ in rewarded for name in sample.reward_components}
    components = {
        f"reward/{name}": _mean(sample.reward_components.get(name, 0.0) for sample, _ in rewarded)
        for name in sorted(names)
    }
    return (
        components
        | _by_source(rewarded, pass_threshold)
        | {
            "reward": fmean(rewards),
            "reward_std": pstdev(rewards),
            "pass_rate": _mean(_passed(rewarded, pass_threshold)),
            "unrewarded_rate": 1.0 - len(rewarded) / len(samples),
        }
    )


Rewarded = Sequence[tuple[Trajectory, float]]
"""Samples with their rewards."""


def _passed(rewarded: Rewarded, threshold: PassThreshold) -> list[bool]:
    return [reward >= threshold.of(source_of(sample.extra)) for sample, reward in rewarded]


def _by_source(rewarded: Rewarded, threshold: PassThreshold) -> dict[str, float]:
    """Rewards and pass rates of each source that rows name."""
    groups: dict[str, list[tuple[Trajectory, float]]] = {}
    for sample, reward in rewarded:
        source = source_of(sample.extra)
        if source is not None:
            groups.setdefault(source, []).append((sample, reward))
    metrics: dict[str, float] = {}
    for source, group in sorted(groups.items())[:MOST_SOURCES]:
        metrics[f"source_reward/{source}"] = fmean(reward for _, reward in group)
        metrics[f"source_pass_rate/{source}"] = _mean(_passed(group, threshold))
        metrics[f"source_samples/{source}"] = float(len(group))
    return metrics


def _mean(values: Iterable[float]) -> float:
    return fmean(values)
