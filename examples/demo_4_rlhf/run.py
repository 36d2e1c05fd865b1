"""Reinforcement learning from human feedback, from data to results on this machine.

Creates a tiny base model with random weights, fine-tunes it on demonstrations, trains a reward
model on rated pairs and optimizes the fine-tuned model against it with PPO, all through the
gateway's REST API. Results of earlier runs are reused.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, variance

from rich.table import Table

from examples.demo_4_rlhf.replies import HELD_OUT, RATING, write_data
from examples.demo_4_rlhf.steps import SAMPLES, SCORE, RlhfLesson, teach
from examples.demo_common.printer import Printer
from examples.demo_common.report import interval, show_rewards, train_time
from examples.demo_common.setup import local_stack, make_model
from examples.demo_common.steps import Demo
from temper import Temper
from temper.types import RewardSpread, Rollout

EVEN = 0.5


@dataclass(frozen=True)
class WinRate:
    """How often one model's replies are rated higher than another's; a tie counts half.

    ``ci95`` is the mean +- 1.96 standard errors, clustered by prompt.
    """

    mean: float
    ci95: tuple[float, float]


def run(home: Path, out: Printer, steps: int, seed: int, *, gamed: bool = False) -> bool:
    """Run all steps; return whether the rater prefers the replies after PPO.

    With ``gamed`` the reward is made to be gamed; return whether its audit finds that.
    """
    out.line("(a) a tiny base model, its data and the local stack")
    name = f"tiny-rlhf-{seed}"
    model = make_model(home, name, "demo_1_addition/model.py", ["--seed", str(seed)], out)
    data = write_data(home / "demo" / f"rlhf-{seed}{'-gamed' if gamed else ''}", seed, gamed=gamed)
    with local_stack(home, out) as client:
        demo = Demo(client, out, home)
        lesson = teach(demo, model, data, steps, seed, gamed=gamed)
        wins = win_rate(_ratings(lesson.after, client), _ratings(lesson.before, client))
        _show(lesson, wins, client, out)
        audit = client.trajectories.audit(lesson.ppo.id)
        for check in audit.checks:
            out.line(f"  {'found' if check.flagged else '-':6} {check.name}: {check.message}")
    if gamed:
        return audit.flagged
    return wins.ci95[0] > EVEN


def win_rate(ours: Mapping[int, Sequence[float]], theirs: Mapping[int, Sequence[float]]) -> WinRate:
    """Compare two models' ratings prompt by prompt, over all pairs of replies.

    Needs at least two prompts that both have answered.
    """
    shares = [
        fmean(_outcome(our, their) for our in ours[prompt] for their in theirs[prompt])
        for prompt in ours.keys() & theirs.keys()
    ]
    mean = fmean(shares)
    half = 1.96 * sqrt(variance(shares, mean) / len(shares))
    return WinRate(mean, (mean - half, mean + half))


def _outcome(our: float, their: float) -> float:
    return EVEN if our == their else float(our > their)


def _ratings(job: Rollout, client: Temper) -> Mapping[int, Sequence[float]]:
    """The ratings of the replies to each prompt."""
    ratings: dict[int, list[float]] = defaultdict(list)
    for each in client.trajectories.page(job.id, most=HELD_OUT * SAMPLES).data:
        if RATING in each.reward_components:
            ratings[each.prompt_index].append(each.reward_components[RATING])
    return ratings


def table_of(lesson: RlhfLesson, wins: WinRate) -> Table:
    """Ratings and reward-model scores of the replies, and training times."""
    table = Table("sampled", "fine-tuned", "after PPO")
    jobs = (lesson.before, lesson.after)
    table.add_row("rating", *(f"{_spread(job, RATING).mean:.1%}" for job in jobs))
    table.add_row("95 % interval", *(interval(_spread(job, RATING).ci95) for job in jobs))
    table.add_row(
        "score of the reward model", *(f"{_spread(job, SCORE).mean:+.2f}" for job in jobs)
    )
    table.add_row("win rate", "", f"{wins.mean:.1%}")
    table.add_row("95 % interval", "", interval(wins.ci95))
    table.add_row("held-out samples", *(str(_spread(job, RATING).count) for job in jobs))
    table.add_row("train time", train_time(lesson.supervised), train_time(lesson.ppo))
    table.add_row("train time of the reward model", "", train_time(lesson.reward_model))
    return table


def _spread(job: Rollout, component: str) -> RewardSpread:
    if job.statistics is None:
        raise ValueError(f"{job.id} has no statistics")
    return job.statistics.reward_components[component]


def _show(lesson: RlhfLesson, wins: WinRate, client: Temper, out: Printer) -> None:
    out.line("(h) results")
    out.table(table_of(lesson, wins))
    show_rewards(lesson.ppo, client, out)
    for title, job in (("before", lesson.before), ("after", lesson.after)):
        out.line(f"\nreplies {title} PPO ({job.id})")
        for each in client.trajectories.page(job.id, most=3).data:
            out.line(f"  {each.question}\n    {each.answer}")
