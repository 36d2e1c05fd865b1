"""A published model on this machine, from a GGUF file to measured gains.

Downloads SmolLM2-135M-Instruct, converts it once, fine-tunes it on a few calls of a calculator and
trains it with RL on graded ones, all through the gateway's REST API. Results of earlier runs are
reused.
"""

from pathlib import Path

from rich.table import Table

from examples.demo_6_real.data import write_data
from examples.demo_6_real.model import fetch_model
from examples.demo_6_real.steps import DRAWN_PER_STEP, CallingLesson, teach
from examples.demo_common.printer import Printer
from examples.demo_common.report import interval, show_rewards, train_time
from examples.demo_common.setup import local_stack
from examples.demo_common.steps import Demo


def run(home: Path, out: Printer, steps: int, seed: int) -> bool:
    """Run all steps; return whether both trainings raised the share of right calls."""
    out.line("(a) a published model, data and the local stack")
    model = fetch_model(home, out)
    data = write_data(home / "demo" / f"real-{seed}", DRAWN_PER_STEP * steps, seed)
    with local_stack(home, out) as client:
        lesson = teach(Demo(client, out, home), model, data, steps, seed)
        out.line("(g) results")
        out.table(table_of(lesson))
        show_rewards(lesson.reinforcement, client, out)
    return has_learned(lesson)


def has_learned(lesson: CallingLesson) -> bool:
    """Whether the interval after both trainings lies above that of the published model, and RL
    answered more problems than the fine-tune alone."""
    published, tuned, reinforced = (each.metrics for each in lesson.evaluations)
    assert published is not None and tuned is not None and reinforced is not None  # noqa: S101, PT018 - all three have succeeded
    gained = reinforced.ci95[0] > published.ci95[1]
    return gained and reinforced.accuracy > tuned.accuracy


def table_of(lesson: CallingLesson) -> Table:
    """The share of right calls, and training times."""
    table = Table("sampled", "as published", "fine-tuned", "reinforced")
    metrics = [each.metrics for each in lesson.evaluations if each.metrics is not None]
    table.add_row("right calls", *(f"{each.accuracy:.1%}" for each in metrics))
    table.add_row("95 % interval", *(interval(each.ci95) for each in metrics))
    table.add_row("answers to held-out problems", *(str(each.samples) for each in metrics))
    table.add_row("generated tokens/s", *(f"{each.tokens_per_second:,.0f}" for each in metrics))
    times = (train_time(job) for job in (lesson.supervised, lesson.reinforcement))
    table.add_row("train time", "", *times)
    return table
