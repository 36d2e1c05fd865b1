"""The tool-use demo while its sandbox is killed for a minute: what it learns stays the same."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from examples.demo_3_tool_use.run import prepare
from examples.demo_3_tool_use.steps import cold_start, reinforcement
from examples.demo_3_tool_use.tasks import Arithmetic
from examples.demo_common.printer import Printer
from examples.demo_common.setup import local_stack
from examples.demo_common.steps import Demo
from services.contracts.data.files import FilePurpose
from services.contracts.jobs import JobStatus
from temper.client import Temper
from temper.stack.processes import signal_group
from temper.stack.services import Service
from temper.stack.state import StackFile
from tests.support.runtimes import FOLDER, installed_runtime

STEPS = 20
WINDOW = 10
BAND = 0.15
"""Difference of two runs' mean rewards over a window: four standard errors of its 1,280 samples."""
OUTAGE_SECONDS = 60.0
BEGINS_AT = 6
"""Step after which the sandbox is killed."""

Steps = Mapping[int, Mapping[str, Any]]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_tool_demo_learns_as_usual_while_its_sandbox_is_killed_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_runtime("training")
    installed_runtime("vllm")
    installed_runtime("sandbox")
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_RUNTIMES", str(FOLDER))
    out, task = Printer(), Arithmetic()
    model, data = prepare(task, tmp_path, out, STEPS, 1)
    with local_stack(tmp_path, out) as client:
        demo = Demo(client, out, tmp_path)
        conversations = demo.upload(data.conversations, FilePurpose.FINE_TUNE)
        prompts = demo.upload(data.prompts, FilePurpose.FINE_TUNE)
        cold = demo.train(cold_start(task, demo.register(model), conversations, 1), conversations)
        runs = []
        for name in ("undisturbed", "outage"):
            request = reinforcement(task, cold, prompts, STEPS, 1)
            job_id = demo.submit(request.model_copy(update={"suffix": name}), prompts)
            runs.append(followed(client, job_id, tmp_path if name == "outage" else None))

    undisturbed, disturbed = runs
    assert failures(undisturbed) == 0
    assert failures(disturbed) > 0
    assert sorted(disturbed) == sorted(undisturbed) == list(range(1, STEPS + 1))
    curves = [windows(each) for each in runs]
    differences = [abs(usual - lost) for usual, lost in zip(*curves, strict=True)]
    assert max(differences) < BAND, curves
    assert all(curve[-1] > curve[0] for curve in curves), curves


def followed(client: Temper, job_id: str, killed_in: Path | None) -> Steps:
    """The metrics of a job's steps; the sandbox of a home folder is killed amid them."""
    steps: dict[int, Mapping[str, Any]] = {}
    for event in client.jobs.follow(job_id):
        if event.type != "metrics" or not event.data:
            continue
        step = event.data["step"]
        steps[step] = event.data
        if step == BEGINS_AT and killed_in is not None:
            kill_sandbox(killed_in, OUTAGE_SECONDS)
            killed_in = None
    job = client.jobs.get(job_id)
    assert job.status is JobStatus.SUCCEEDED, job.error
    return steps


def kill_sandbox(home: Path, seconds: float) -> None:
    """Kill the sandbox of a stack, and each one that the stack starts instead, for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = StackFile(home).running()
        assert state is not None
        (sandbox,) = (each for each in state.services if each.name is Service.SANDBOX)
        if sandbox.process.is_alive:
            signal_group(sandbox.process, signal.SIGKILL)
        time.sleep(0.2)


def failures(steps: Steps) -> float:
    return float(sum(each["infrastructure_failures"] for each in steps.values()))


def windows(steps: Steps) -> Sequence[float]:
    """The mean reward of each window of steps."""
    return [
        fmean(steps[step]["reward"] for step in range(first, first + WINDOW))
        for first in range(1, STEPS + 1, WINDOW)
    ]
