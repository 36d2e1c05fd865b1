"""Tool use, from data to results on this machine.

Creates a tiny base model with random weights, fine-tunes it on conversations that use the tool
(the cold start), and trains it with RL on live tool calls, all through the gateway's REST API.
Results of earlier runs are reused.
"""

import json
from pathlib import Path

from rich.table import Table

from examples.demo_3_tool_use.steps import CORRECT, ToolUseData, ToolUseLesson, teach, write_data
from examples.demo_3_tool_use.tasks import INDEX, Facts, ToolTask, corpus_rows
from examples.demo_common.printer import Printer
from examples.demo_common.report import interval, show_rewards, train_time
from examples.demo_common.setup import command, local_stack, make_model, write_rows
from examples.demo_common.steps import Demo
from temper.types import (
    CreateIndexingJob,
    FilePurpose,
    RewardSpread,
    Rollout,
)

WORDS = 500


def run(task: ToolTask, home: Path, out: Printer, steps: int, seed: int) -> bool:
    """Run all steps; return whether the model learned the task."""
    out.line("(a) a tiny base model, its data and the local stack")
    model, data = prepare(task, home, out, steps, seed)
    with local_stack(home, out) as client:
        demo = Demo(client, out, home)
        prepare_tool(task, demo)
        lesson = teach(demo, task, model, data, steps, seed)
        _show(lesson, demo)
    return has_learned(lesson)


def prepare(
    task: ToolTask, home: Path, out: Printer, steps: int, seed: int
) -> tuple[Path, ToolUseData]:
    """Create the base model of a seed, and its data."""
    folder = home / "demo" / f"{task.name}-{seed}"
    data = write_data(task, folder, steps, seed)
    words = _first_rows(data.conversations, folder / "words.jsonl")
    arguments = [str(words), "--seed", str(seed)]
    name = f"tiny-{task.name}-{seed}"
    return make_model(home, name, "demo_3_tool_use/model.py", arguments, out), data


def prepare_tool(task: ToolTask, demo: Demo) -> None:
    """Build the index that the tool searches, if any."""
    if not isinstance(task, Facts):
        return
    corpus = demo.home / "demo" / "facts.jsonl"
    write_rows(corpus, corpus_rows())
    file = demo.upload(corpus, FilePurpose.USER_DATA)
    demo.finish(demo.submit(CreateIndexingJob(index=INDEX, file=file.id), file))


def _first_rows(path: Path, target: Path) -> Path:
    """Write the rows that the tokenizer is trained on."""
    with open(path, encoding="utf-8") as lines:
        write_rows(target, (json.loads(line) for line, _ in zip(lines, range(WORDS), strict=False)))
    return target


def _show(lesson: ToolUseLesson, demo: Demo) -> None:
    client, out = demo.client, demo.out
    out.line("(g) results")
    out.table(table_of(lesson))
    show_rewards(lesson.reinforcement, client, out)
    out.line("\none of the rollouts")
    best = ("traj", lesson.after.id, "--best=1")
    out.line(command(demo.home, *best, url=client.base_url))


NEAR_ZERO = 0.05


def correct(job: Rollout) -> RewardSpread:
    """The share of correct answers."""
    if job.statistics is None:
        raise ValueError(f"{job.id} has no statistics")
    return job.statistics.reward_components[CORRECT]


def reward(job: Rollout) -> RewardSpread:
    """The mean reward."""
    if job.statistics is None or job.statistics.reward is None:
        raise ValueError(f"{job.id} has no rewards")
    return job.statistics.reward


def has_learned(lesson: ToolUseLesson) -> bool:
    """Whether RL raised the reward, and answers depend on the tool."""
    return (
        reward(lesson.after).mean > reward(lesson.before).mean
        and correct(lesson.without_tool).mean < NEAR_ZERO
    )


def table_of(lesson: ToolUseLesson) -> Table:
    """Rewards and accuracy: cold start, after RL, and after RL without the tool."""
    table = Table("sampled", "cold start", "reinforced", "without the tool")
    jobs = (lesson.before, lesson.after, lesson.without_tool)
    table.add_row("correct answers", *(f"{correct(job).mean:.1%}" for job in jobs))
    table.add_row("95 % interval", *(interval(correct(job).ci95) for job in jobs))
    table.add_row("reward", *(f"{reward(job).mean:+.3f}" for job in jobs))
    table.add_row("held-out samples", *(str(reward(job).count) for job in jobs))
    times = [train_time(job) for job in (lesson.cold_start, lesson.reinforcement)]
    table.add_row("train time", *times, "")
    return table
