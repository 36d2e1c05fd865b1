"""Running totals of a rollout job, and the statistics that they come to."""

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.rollouts import (
    RewardSpread,
    RolloutStatistics,
    Spread,
    ToolStatistics,
)
from services.contracts.rollouts.trajectories import CallOutcome, ToolCallRecord, Trajectory
from services.evaluator.statistics import reward_spread, spread

UNKNOWN_TOOLS = "(unknown)"
"""One counter for all tool names that the model invented, whose number is unbounded."""


@dataclass
class _Rewards:
    """Rewards, and the prompts whose samples got them."""

    values: "array[float]" = field(default_factory=lambda: array("d"))
    prompts: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, value: float, prompt: int) -> None:
        self.values.append(value)
        self.prompts.append(prompt)

    def spread(self) -> RewardSpread | None:
        return reward_spread(self.values, self.prompts) if self.values else None


@dataclass
class _Calls:
    """The calls of one tool."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    attempts: int = 0
    seconds: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, call: ToolCallRecord) -> None:
        self.outcomes[call.outcome.value] += 1
        self.failed += call.outcome.is_error
        if call.outcome is not CallOutcome.DROPPED:
            self.attempts += call.attempts
            self.seconds.append(call.seconds)

    def statistics(self) -> ToolStatistics:
        return ToolStatistics(
            calls=len(self.seconds),
            failed=self.failed,
            attempts=self.attempts,
            outcomes=dict(self.outcomes),
            seconds=spread(self.seconds) if self.seconds else None,
        )


_VALUES = (
    *("prompt_tokens", "response_tokens", "sampled_tokens", "turns"),
    *("seconds", "model_seconds", "tool_seconds"),
)


class RolloutTotals:
    """Sums over trajectories, independent of their order.

    ``seconds`` is the time spent generating, over all attempts.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.trajectories = 0
        self.failed = 0
        self.counted = 0
        self.left_out: Counter[InfrastructureCause] = Counter()
        self.infrastructure_failures: Counter[str] = Counter()
        self.calls = 0
        self.failed_calls = 0
        self.sampled_tokens = 0
        self.reward_sum = 0.0
        self._malformed = 0
        self._reward_errors = 0
        self._finish_reasons: Counter[str] = Counter()
        self._reward = _Rewards()
        self._components: defaultdict[str, _Rewards] = defaultdict(_Rewards)
        self._tools: defaultdict[str, _Calls] = defaultdict(_Calls)
        self._prompts: set[int] = set()
        self._values = {name: array("d") for name in _VALUES}

    @property
    def unit(self) -> str:
        """What is counted."""
        return "trajectories"

    @property
    def done(self) -> int:
        """Rollouts that have ended."""
        return self.trajectories

    @property
    def tokens(self) -> int:
        """Tokens that were sampled."""
        return self.sampled_tokens

    def metrics_so_far(self) -> dict[str, float]:
        """Metrics reported while rollouts run."""
        metrics: dict[str, float] = {
            "failed": self.failed,
            "samples_left_out": self.left_out.total(),
            "infrastructure_failures": self.infrastructure_failures.total(),
        }
        for source, number in sorted(self.infrastructure_failures.items()):
            metrics[f"infrastructure_failures/{source}"] = number
        if self.rewarded:
            metrics["reward"] = self.reward_sum / self.rewarded
        if self.trajectories:
            metrics["calls_per_trajectory"] = self.calls / self.trajectories
        if self.calls:
            metrics["call_failure_rate"] = self.failed_calls / self.calls
        return metrics

    @property
    def rewarded(self) -> int:
        """How many trajectories have a reward."""
        return len(self._reward.values)

    def add(self, trajectory: Trajectory) -> None:
        """Count one trajectory; one that is left out, in no spread and no mean."""
        is_failure, lost = trajectory.finish_reason.is_failure, trajectory.left_out
        self.trajectories += 1
        self.failed += is_failure
        self.sampled_tokens += trajectory.sampled_tokens
        self._finish_reasons[trajectory.finish_reason.value] += 1
        self._prompts.add(trajectory.prompt_index)
        self.infrastructure_failures.update(trajectory.infrastructure_failures)
        if lost is not None:
            self.left_out[lost.cause] += 1
            return
        self.counted += not is_failure
        self._add_reward(trajectory)
        self._add_calls(trajectory)
        values = (
            trajectory.prompt_tokens,
            trajectory.response_tokens,
            trajectory.sampled_tokens,
            len(trajectory.turns),
            trajectory.seconds,
            trajectory.model_seconds,
            trajectory.tool_seconds,
        )
        for name, value in zip(_VALUES, values, strict=True):
            self._values[name].append(value)

    def _add_reward(self, trajectory: Trajectory) -> None:
        prompt = trajectory.prompt_index
        self._reward_errors += trajectory.reward_error is not None
        if trajectory.reward is not None:
            self.reward_sum += trajectory.reward
            self._reward.add(trajectory.reward, prompt)
        for name, value in trajectory.reward_components.items():
            self._components[name].add(value, prompt)

    def _add_calls(self, trajectory: Trajectory) -> None:
        self.calls += trajectory.tool_calls
        self.failed_calls += trajectory.failed_calls
        known = {schema.get("function", {}).get("name") for schema in trajectory.tools}
        for turn in trajectory.turns:
            self._malformed += len(turn.malformed)
            for call in turn.calls:
                self._tools[call.name if call.name in known else UNKNOWN_TOOLS].add(call)

    def statistics(self) -> RolloutStatistics:
        """The statistics; needs at least one trajectory."""
        best = self._best()
        spreads: dict[str, Spread] = {name: spread(each) for name, each in self._values.items()}
        return RolloutStatistics(
            prompts=len(self._prompts),
            trajectories=self.trajectories,
            failed=self.failed,
            left_out=self.left_out.total(),
            left_out_causes=dict(self.left_out),
            infrastructure_failures=dict(self.infrastructure_failures),
            finish_reasons=dict(self._finish_reasons),
            reward=self._reward.spread(),
            reward_components={
                name: reward_spread(each.values, each.prompts)
                for name, each in self._components.items()
            },
            best_reward=reward_spread(list(best.values()), list(best)) if best else None,
            uniform_prompts=self._uniform(),
            reward_errors=self._reward_errors,
            tools={name: each.statistics() for name, each in sorted(self._tools.items())},
            calls=self.calls,
            failed_calls=self.failed_calls,
            malformed_calls=self._malformed,
            generation_seconds=self.seconds,
            tokens_per_second=self.sampled_tokens / self.seconds if self.seconds else 0.0,
            **spreads,
        )

    def _best(self) -> dict[int, float]:
        """The highest reward of every prompt that was rewarded."""
        best: dict[int, float] = {}
        for prompt, value in zip(self._reward.prompts, self._reward.values, strict=True):
            best[prompt] = max(value, best.get(prompt, value))
        return best

    def _uniform(self) -> int:
        """How many prompts have several rewards that are all the same."""
        rewards: defaultdict[int, set[float]] = defaultdict(set)
        samples = Counter(self._reward.prompts)
        for prompt, value in zip(self._reward.prompts, self._reward.values, strict=True):
            rewards[prompt].add(value)
        return sum(len(values) == 1 and samples[prompt] > 1 for prompt, values in rewards.items())
