"""Learning curves of the tool-use demos over several seeds.

    python -m benchmarks.rl.learning [--task retool|search] [--seeds 1 2 3] [--steps 100]

Every seed has its own model, cold start, training questions and held-out questions. Prints, for
each, the sampled reward on held-out questions before and after RL, and their difference; over all
seeds the mean difference with its 95 % interval, from the per-question differences. Exits with 0
only if every seed improved, the mean gain exceeds its interval, and almost nothing is answered
without the tool. A seed takes about 12 minutes on two cores.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from examples.demo_3_tool_use.run import NEAR_ZERO, correct, prepare, prepare_tool, reward
from examples.demo_3_tool_use.steps import (
    HELD_OUT,
    REINFORCEMENT_STEPS,
    SAMPLES,
    ToolUseLesson,
    teach,
)
from examples.demo_3_tool_use.tasks import Arithmetic, Facts, ToolTask
from examples.demo_common.printer import Printer
from examples.demo_common.setup import home_folder, local_stack
from examples.demo_common.steps import Demo
from services.contracts.jobs import JobKind
from services.metrics.paired import student_test
from temper.client import Temper

TASKS: Mapping[str, type[Arithmetic | Facts]] = {"retool": Arithmetic, "search": Facts}


@dataclass(frozen=True)
class Gain:
    """The gain of one seed from RL: rewards, and the difference for each question."""

    seed: int
    before: float
    after: float
    differences: tuple[float, ...]
    right_before: float
    right_after: float
    right_without_tool: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--task", choices=TASKS, default="retool")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=REINFORCEMENT_STEPS)
    arguments = parser.parse_args()
    task: ToolTask = TASKS[arguments.task]()
    home, out = home_folder(), Printer()
    with local_stack(home, out) as client:
        demo = Demo(client, out, home)
        prepare_tool(task, demo)
        gains = []
        for seed in arguments.seeds:
            model, data = prepare(task, home, out, arguments.steps, seed)
            lesson = teach(demo, task, model, data, arguments.steps, seed)
            gains.append(_gain(client, seed, lesson))
            _print(gains[-1])
    return 0 if _judge(gains) else 1


def _gain(client: Temper, seed: int, lesson: ToolUseLesson) -> Gain:
    before = _by_question(client, lesson.before.id)
    after = _by_question(client, lesson.after.id)
    return Gain(
        seed=seed,
        before=reward(lesson.before).mean,
        after=reward(lesson.after).mean,
        differences=tuple(after[question] - before[question] for question in sorted(before)),
        right_before=correct(lesson.before).mean,
        right_after=correct(lesson.after).mean,
        right_without_tool=correct(lesson.without_tool).mean,
    )


def _by_question(client: Temper, job_id: str) -> Mapping[int, float]:
    """The mean reward of each held-out question's samples."""
    rewards: dict[int, list[float]] = {}
    page = client.trajectories.page(job_id, JobKind.ROLLOUT, most=HELD_OUT * SAMPLES)
    for each in page.data:
        rewards.setdefault(each.prompt_index, []).append(each.reward or 0.0)
    return {question: fmean(values) for question, values in rewards.items()}


def _print(gain: Gain) -> None:
    difference = fmean(gain.differences)
    print(
        f"seed {gain.seed}: sampled reward {gain.before:+.3f} -> {gain.after:+.3f} "
        f"({difference:+.3f} +- {_half_interval(gain.differences):.3f}), "
        f"right {gain.right_before:.1%} -> {gain.right_after:.1%}, "
        f"without the tool {gain.right_without_tool:.1%}",
        flush=True,
    )


def _judge(gains: Sequence[Gain]) -> bool:
    differences = [each for gain in gains for each in gain.differences]
    mean, half = fmean(differences), _half_interval(differences)
    print(f"mean gain {mean:+.3f}, 95 % interval {mean - half:+.3f} to {mean + half:+.3f}")
    return (
        all(gain.after > gain.before for gain in gains)
        and mean > half
        and all(gain.right_without_tool < NEAR_ZERO for gain in gains)
    )


def _half_interval(values: Sequence[float]) -> float:
    """Return half the width of the mean's 95 % interval (Student's)."""
    _, (low, high) = student_test(np.array(values))
    return (high - low) / 2


if __name__ == "__main__":
    sys.exit(main())
