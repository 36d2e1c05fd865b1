"""Results as the demos print them."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from examples.demo_common.printer import Printer, duration
from temper import Temper
from temper.types import FineTuningJob

REWARD = "reward"
EVENTS = 10_000
POINTS = 20
WIDTH = 40


def show_rewards(job: FineTuningJob, client: Temper, out: Printer) -> None:
    """Print the mean reward of online training over its steps."""
    out.line("\nmean reward during RL, by step")
    for line in curve(rewards_by_step(job, client)):
        out.line(line)


def rewards_by_step(job: FineTuningJob, client: Temper) -> Mapping[int, float]:
    """The mean reward of each step of online training."""
    return values_by_step(job, client, REWARD)


def values_by_step(job: FineTuningJob, client: Temper, name: str) -> Mapping[int, float]:
    """A metric of each step that has it."""
    events = client.jobs.events(job.id, most=EVENTS).data
    return {
        int(event.data["step"]): float(event.data[name])
        for event in events
        if event.type == "metrics" and event.data and name in event.data
    }


def curve(values: Mapping[int, float]) -> Sequence[str]:
    """One line per range of steps: its mean, and a bar scaled to the extremes."""
    steps = sorted(values)
    size = max(1, -(-len(steps) // POINTS))
    parts = [steps[begin : begin + size] for begin in range(0, len(steps), size)]
    means = [fmean(values[step] for step in part) for part in parts]
    low, high = min(means, default=0.0), max(means, default=0.0)
    span = high - low or 1.0
    return [
        f"  {part[0]:>4}-{part[-1]:<4} {mean:+.3f} {'█' * (1 + round((mean - low) / span * WIDTH))}"
        for part, mean in zip(parts, means, strict=True)
    ]


def interval(ci95: tuple[float, float]) -> str:
    """Format a confidence interval of a proportion."""
    return f"{max(0.0, ci95[0]):.1%} to {min(1.0, ci95[1]):.1%}"


def train_time(job: FineTuningJob) -> str:
    """Format a job's training time; empty if unknown."""
    return duration(job.train_seconds) if job.train_seconds is not None else ""
