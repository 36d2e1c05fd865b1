"""What the metrics of one job say about its health."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.contracts.alerts import AlertRule
from services.contracts.jobs import JobKind

WINDOW = 10
"""Steps that a mean is taken over."""
FINITE = ("loss", "grad_norm")
MIN_GAIN = 1e-3
"""A reward that rose by less has nothing to lose."""


@dataclass(frozen=True)
class AlertBounds:
    """Bounds of the rules: ``kl`` and ``mismatch`` in nats per token, shares from 0 to 1."""

    kl: float
    mismatch: float
    failure_share: float
    reward_drop: float
    wait_seconds: float
    disk_share: float


@dataclass(frozen=True)
class Finding:
    """A rule that holds: why, the value at fault, None if it is not finite, and the bound that it
    crossed, if the rule has one."""

    message: str
    value: float | None
    bound: float | None = None


class JobSignals:
    """The latest metrics of a job, and which rules they fulfill.

    Trainings report each step by itself; other jobs report totals, and their mean reward is no
    curve of learning.
    """

    def __init__(self, bounds: AlertBounds, kind: JobKind) -> None:
        self._bounds = bounds
        self._is_training = kind is JobKind.FINE_TUNING
        self._step: int | None = None
        self._not_finite: str | None = None
        self._values: dict[str, deque[float]] = {}
        self._first_reward: float | None = None
        self._best_reward: float | None = None
        self.position = 0
        """Number of the last event that was read."""

    def read(self, data: Mapping[str, Any]) -> None:
        """Take the metrics of a step into account; one that is not finite is null."""
        self._step = data.get("step")
        known = [name for name in FINITE if name in data]
        if known:
            broken = [name for name in known if data[name] is None]
            self._not_finite = broken[0] if broken else None
        for name in ("kl", "sampler_kl", "reward", "reward_std", "samples_left_out"):
            if isinstance(value := data.get(name), int | float):
                self._values.setdefault(name, deque(maxlen=WINDOW)).append(value)
        if isinstance(kept := data.get("batch_samples"), int | float):
            self._values.setdefault("batch_samples", deque(maxlen=WINDOW)).append(kept)
        rewards = self._values.get("reward", ())
        if len(rewards) == WINDOW:
            mean = sum(rewards) / WINDOW
            self._first_reward = mean if self._first_reward is None else self._first_reward
            self._best_reward = mean if self._best_reward is None else max(mean, self._best_reward)

    def findings(self) -> dict[AlertRule, Finding]:
        """The rules that hold now."""
        found = {
            AlertRule.LOSS_NOT_FINITE: self._loss(),
            AlertRule.REWARD_COLLAPSE: self._reward(),
            AlertRule.KL_HIGH: self._above("kl", self._bounds.kl, "KL to the reference"),
            AlertRule.SAMPLER_MISMATCH: self._above(
                "sampler_kl", self._bounds.mismatch, "KL between learner and sampler"
            ),
            AlertRule.FAILURE_SHARE: self._failures(),
        }
        return {rule: finding for rule, finding in found.items() if finding is not None}

    def _loss(self) -> Finding | None:
        if self._not_finite is None:
            return None
        return Finding(f"{self._not_finite} is not finite at step {self._step}", None)

    def _reward(self) -> Finding | None:
        """The mean reward fell back from its best towards its start, or all rewards are equal."""
        if not self._is_training:
            return None
        rewards = self._values.get("reward", ())
        if len(rewards) < WINDOW or self._first_reward is None or self._best_reward is None:
            return None
        mean = sum(rewards) / WINDOW
        gain = self._best_reward - self._first_reward
        bound = self._best_reward - self._bounds.reward_drop * gain
        if gain > MIN_GAIN and mean < bound:
            message = (
                f"the mean reward of {WINDOW} steps fell to {mean:.4g}, from "
                f"{self._best_reward:.4g} at best and {self._first_reward:.4g} at the start"
            )
            return Finding(message, mean, bound)
        spread = self._values.get("reward_std", ())
        if len(spread) == WINDOW and not any(spread):
            message = f"all rewards of a step were equal in {WINDOW} steps: nothing is learned"
            return Finding(message, 0.0)
        return None

    def _above(self, name: str, bound: float, label: str) -> Finding | None:
        values = self._values.get(name, ())
        if not values:
            return None
        mean = sum(values) / len(values)
        if mean <= bound:
            return None
        message = f"{label} is {mean:.4g} per token over {len(values)} steps (bound {bound:g})"
        return Finding(message, mean, bound)

    def _failures(self) -> Finding | None:
        losses = self._values.get("samples_left_out", deque([0.0]))
        if self._is_training:
            lost = sum(losses)
            asked, which = lost + sum(self._values.get("batch_samples", ())), "latest samples"
        else:
            lost, asked, which = losses[-1], float(self._step or 0), "samples so far"
        share = lost / asked if lost and asked else 0.0
        if share <= self._bounds.failure_share:
            return None
        message = (
            f"{share:.1%} of the {which} were lost to failed tools or services "
            f"(bound {self._bounds.failure_share:.1%})"
        )
        return Finding(message, share, self._bounds.failure_share)
