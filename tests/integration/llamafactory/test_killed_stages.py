"""Every stage resumes after SIGKILL with the same losses, and exits when it is cancelled."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from services.core.process.reporter import RESULT

from .training_job import Job

pytestmark = [pytest.mark.runtime, pytest.mark.long, pytest.mark.timeout(600)]

SAVE_STEPS = 30
STEPS = 2000
"""Never reached: the tests end the training."""


def pair(number: int) -> dict[str, Any]:
    return {
        "input": {"messages": [{"role": "user", "content": f"Say {number}."}]},
        "preferred_output": [{"role": "assistant", "content": f"{number}!"}],
        "non_preferred_output": [{"role": "assistant", "content": "No, not at all."}],
    }


def judged(number: int) -> dict[str, Any]:
    answer = f"{number}!" if number % 2 else "No, not at all."
    messages = [
        {"role": "user", "content": f"Say {number}."},
        {"role": "assistant", "content": answer},
    ]
    return {"messages": messages, "label": bool(number % 2)}


def text(number: int) -> dict[str, Any]:
    return {"text": f"Once upon a time there were {number} numbers. " * 4}


@pytest.mark.parametrize(
    ("stage", "row"),
    [("dpo", pair), ("kto", judged), ("rm", pair), ("pt", text)],
)
def test_a_killed_stage_resumes_with_a_continuing_loss_and_can_be_cancelled(
    job: Job, stage: str, row: Any
) -> None:
    arguments = {"save_steps": SAVE_STEPS, "logging_steps": 1, "max_steps": STEPS}
    job.write([row(number) for number in range(64)], stage=stage, arguments=arguments)
    killed = job.start()
    job.wait_for(lambda: newest_complete(job) and losses(job)[-1][0] > newest_complete(job) + 1)

    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait(60)
    before = losses(job)
    saved = newest_complete(job)
    resumed = job.start()
    job.wait_for(lambda: len(losses(job)) > len(before) + 1)
    resumed.terminate()

    assert resumed.wait(60) == -signal.SIGTERM
    assert not (job.directory / RESULT).exists()
    after = losses(job)[len(before) :]
    assert [step for step, _ in after] == list(range(saved + 1, saved + 1 + len(after)))
    repeated = [(step, loss) for step, loss in after if step in dict(before)]
    assert dict(repeated) == pytest.approx(
        {step: dict(before)[step] for step, _ in repeated}, rel=1e-4
    )


def losses(job: Job) -> list[tuple[int, float]]:
    """Steps and losses in the order in which they were reported."""
    return [
        (report["step"], report["metrics"]["loss"])
        for report in job.reports("metrics")
        if "loss" in report["metrics"]
    ]


def newest_complete(job: Job) -> int:
    """The step of the newest complete checkpoint; 0 without any."""
    folders: list[Path] = list(job.directory.glob("output/checkpoint-*/complete.json"))
    return max((json.loads(each.read_bytes())["step"] for each in folders), default=0)
