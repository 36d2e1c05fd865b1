"""Teaching a tiny model the use of a tool on this machine, from the data to a table.

Makes a tiny base model with random weights, shows it conversations that use the tool (the cold
start), and reinforces what it samples with live calls, all through the gateway's REST interface.
What a former run made is used again.
"""

import json
from pathlib import Path

from services.contracts.files import FilePurpose
from services.contracts.indexes import CreateIndexingJob
from services.contracts.jobs import JobKind
from services.contracts.rollouts import TrajectoryOrder
from temper.cli.gateway import client_of
from temper.cli.output import Output
from temper.client import Temper
from temper.demo.models import make_model
from temper.demo.rows import write_rows
from temper.demo.stack import local_stack
from temper.demo.steps import Demo
from temper.demo.tool_use.facts import INDEX, Facts, corpus_rows
from temper.demo.tool_use.outcome import curve, has_learned, table_of
from temper.demo.tool_use.steps import Data, Lesson, teach, write_data
from temper.demo.tool_use.task import Task
from temper.formats.trajectory_text import render
from temper.settings import ClientSettings

REWARD = "reward"
EVENTS = 10_000
WORDS = 500


def run(task: Task, settings: ClientSettings, out: Output, steps: int, seed: int) -> bool:
    """Run all steps; return whether the model has learned it."""
    out.line("(a) a tiny base model, its data and the local stack")
    model, data = prepare(task, settings, out, steps, seed)
    with local_stack(settings, out) as url, client_of(url, settings) as client:
        demo = Demo(client, out, settings.home)
        prepare_tool(task, demo)
        lesson = teach(demo, task, model, data, steps, seed)
        _show(lesson, client, out)
    return has_learned(lesson)


def prepare(
    task: Task, settings: ClientSettings, out: Output, steps: int, seed: int
) -> tuple[Path, Data]:
    """Make the base model of a seed, and its data."""
    folder = settings.home / "demo" / f"{task.name}-{seed}"
    data = write_data(task, folder, steps, seed)
    words = _first_rows(data.conversations, folder / "words.jsonl")
    arguments = [str(words), "--seed", str(seed)]
    name = f"tiny-{task.name}-{seed}"
    return make_model(settings, name, "tool_use/model.py", arguments, out), data


def prepare_tool(task: Task, demo: Demo) -> None:
    """Build what the tool searches, where it does."""
    if not isinstance(task, Facts):
        return
    corpus = demo.home / "demo" / "facts.jsonl"
    write_rows(corpus, corpus_rows())
    file = demo.upload(corpus, FilePurpose.USER_DATA)
    demo.finish(demo.submit(CreateIndexingJob(index=INDEX, file=file.id), file))


def _first_rows(path: Path, target: Path) -> Path:
    """What the tokenizer's words are taken from."""
    with open(path, encoding="utf-8") as lines:
        write_rows(target, (json.loads(line) for line, _ in zip(lines, range(WORDS), strict=False)))
    return target


def _show(lesson: Lesson, client: Temper, out: Output) -> None:
    out.line("(g) what came of it")
    out.results.print(table_of(lesson))
    job = lesson.reinforcement.id
    events = client.jobs.events(job, most=EVENTS).data
    figures = {
        int(event.data["step"]): float(event.data[REWARD])
        for event in events
        if event.type == "metrics" and event.data and REWARD in event.data
    }
    out.line("\nreward while it was reinforced, by step")
    for line in curve(figures):
        out.line(line)
    best = client.trajectories.page(
        lesson.after.id, JobKind.ROLLOUT, sort=TrajectoryOrder.REWARD, most=1
    )
    for summary in best.data:
        out.line(f"\none of its rollouts ({summary.id} of {lesson.after.id})")
        out.line(render(client.trajectories.get(lesson.after.id, summary.id)))
