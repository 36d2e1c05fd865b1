"""What a tracker receives of a job's reports."""

import json
from pathlib import Path
from typing import Any

from services.core.process.reporter import Reporter
from services.jobs.tracking.follower import (
    MAX_TEXT,
    TRACES_PER_STEP,
    DeliveredPosition,
    FolderFollower,
)


def delivered(folder: Path, position: DeliveredPosition) -> list[tuple[int, dict[str, float]]]:
    follower = FolderFollower(folder, position)
    found = []
    while (batch := follower.read()) is not None:
        found += [(each.step, each.metrics) for each in batch]
    return found


def add_trajectory(folder: Path, said: str, **fields: Any) -> None:
    record = {"messages": [{"role": "user", "content": "why?"}], "turns": [{"text": said}]}
    with (folder / "trajectories.jsonl").open("a") as file:
        file.write(json.dumps({**record, **fields}) + "\n")


def test_metrics_are_delivered_once_across_restarts(tmp_path: Path) -> None:
    reporter, file = Reporter(tmp_path), tmp_path / "position.json"
    reporter.metrics(1, loss=2.0)
    position = DeliveredPosition()
    assert delivered(tmp_path, position) == [(1, {"loss": 2.0})]
    position.save(file)
    reporter.metrics(2, loss=1.0)

    assert delivered(tmp_path, DeliveredPosition.load(file)) == [(2, {"loss": 1.0})]


def test_steps_that_a_resumed_training_repeats_are_left_out(tmp_path: Path) -> None:
    reporter, position = Reporter(tmp_path), DeliveredPosition()
    for step in (1, 2, 3):
        reporter.metrics(step, loss=1.0 / step)
    reporter.metrics(3, eval_loss=9.0)
    for step in (2, 3, 4):  # resumed from the checkpoint of step 1
        reporter.metrics(step, loss=1.0 / step)

    steps = [step for step, metrics in delivered(tmp_path, position) if "loss" in metrics]

    assert steps == [1, 2, 3, 4]


def test_metrics_of_one_step_may_come_in_several_reports(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path)
    reporter.metrics(5, loss=1.0)
    reporter.metrics(5, eval_loss=2.0)

    assert delivered(tmp_path, DeliveredPosition()) == [(5, {"loss": 1.0}), (5, {"eval_loss": 2.0})]


def test_each_phase_counts_its_own_steps(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path)
    reporter.phase("words")
    reporter.metrics(100, rate=1.0)
    reporter.phase("vectors")
    reporter.metrics(10, rate=2.0)

    assert delivered(tmp_path, DeliveredPosition()) == [(100, {"rate": 1.0}), (10, {"rate": 2.0})]


def test_what_is_not_a_finite_number_is_left_out(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path)
    reporter.metrics(1, loss=float("nan"), rate=1.0)
    with (tmp_path / "reports.jsonl").open("a") as file:
        file.write('not JSON\n{"type": "metrics"}\n[]\n{"type": "metrics", "step": 2')

    assert delivered(tmp_path, DeliveredPosition()) == [(1, {"rate": 1.0})]


def test_a_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    position, file = DeliveredPosition(), tmp_path / "reports.jsonl"
    line = json.dumps({"time": 1.0, "type": "metrics", "step": 1, "metrics": {"loss": 1.0}}) + "\n"
    file.write_text(line[:20])
    assert delivered(tmp_path, position) == []

    file.write_text(line)

    assert delivered(tmp_path, position) == [(1, {"loss": 1.0})]


def test_traces_are_the_first_samples_since_the_last_step(tmp_path: Path) -> None:
    follower = FolderFollower(tmp_path, DeliveredPosition())
    for number in range(TRACES_PER_STEP + 3):
        add_trajectory(tmp_path, f"answer {number}", reward=0.5)
    first = follower.traces()
    add_trajectory(tmp_path, "x" * 10_000)
    second = follower.traces()

    assert [trace.response for trace in first] == [f"answer {n}" for n in range(TRACES_PER_STEP)]
    assert (first[0].prompt, first[0].reward) == ("why?", 0.5)
    assert [len(trace.response) for trace in second] == [MAX_TEXT]
    assert follower.traces() == []


def test_a_trajectory_that_is_still_written_is_no_trace(tmp_path: Path) -> None:
    follower = FolderFollower(tmp_path, DeliveredPosition())
    (tmp_path / "trajectories.jsonl").write_text('{"messages": [')
    assert follower.traces() == []
    with (tmp_path / "trajectories.jsonl").open("a") as file:
        file.write("]}\n")
    add_trajectory(tmp_path, "whole")

    assert [trace.response for trace in follower.traces()] == ["whole"]
