"""What came of teaching a tool, for a person."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from rich.table import Table

from services.contracts.fine_tuning import FineTuningJob
from services.contracts.rollouts import RewardSpread, Rollout
from temper.cli.formats import duration
from temper.demo.tool_use.steps import CORRECT, Lesson

POINTS = 20
WIDTH = 40
NEAR_ZERO = 0.05


def correct(job: Rollout) -> RewardSpread:
    """The share of right answers."""
    if job.statistics is None:
        raise ValueError(f"{job.id} has no statistics")
    return job.statistics.reward_components[CORRECT]


def reward(job: Rollout) -> RewardSpread:
    """The reward."""
    if job.statistics is None or job.statistics.reward is None:
        raise ValueError(f"{job.id} has no rewards")
    return job.statistics.reward


def has_learned(lesson: Lesson) -> bool:
    """Whether reinforcement raised the sampled reward, and the tool is what it learned."""
    return (
        reward(lesson.after).mean > reward(lesson.before).mean
        and correct(lesson.without_tool).mean < NEAR_ZERO
    )


def table_of(lesson: Lesson) -> Table:
    """Rewards and right answers of the three models."""
    table = Table("sampled", "cold start", "reinforced", "without the tool")
    jobs = (lesson.before, lesson.after, lesson.without_tool)
    table.add_row("right answers", *(f"{correct(job).mean:.1%}" for job in jobs))
    table.add_row("95 % interval", *(_interval(correct(job)) for job in jobs))
    table.add_row("reward", *(f"{reward(job).mean:+.3f}" for job in jobs))
    table.add_row("held-out samples", *(str(reward(job).count) for job in jobs))
    times = [_seconds(job) for job in (lesson.cold_start, lesson.reinforcement)]
    table.add_row("train time", *times, "")
    return table


def curve(figures: Mapping[int, float]) -> Sequence[str]:
    """A line for each of some ranges of steps: the mean of a figure, and a bar between the least
    and the greatest mean."""
    steps = sorted(figures)
    size = max(1, -(-len(steps) // POINTS))
    parts = [steps[begin : begin + size] for begin in range(0, len(steps), size)]
    means = [fmean(figures[step] for step in part) for part in parts]
    low, high = min(means, default=0.0), max(means, default=0.0)
    span = high - low or 1.0
    return [
        f"  {part[0]:>4}-{part[-1]:<4} {mean:+.3f} {'█' * (1 + round((mean - low) / span * WIDTH))}"
        for part, mean in zip(parts, means, strict=True)
    ]


def _interval(spread: RewardSpread) -> str:
    return f"{max(0.0, spread.ci95[0]):.1%} to {min(1.0, spread.ci95[1]):.1%}"


def _seconds(job: FineTuningJob) -> str:
    return duration(job.train_seconds) if job.train_seconds is not None else ""
