"""The walk of a step of online training: its page names what coordinator and learner execute."""

import threading
from pathlib import Path

import pytest

from tests.integration.rl.training_job import OnlineJob
from tests.support.docs.executed import NOT_COUNTED, begin, executed, recording
from tests.support.docs.walks import named
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

SETTINGS = {
    "steps": 4,
    "prompts_per_step": 2,
    "samples_per_prompt": 4,
    "max_prompt_length": 256,
    "max_staleness": 0,
    "sampling": {"max_tokens": 24},
    "engine": {"max_model_len": 512, "cpu_kv_cache_gib": 0.1},
}
REWARDS = [{"name": "written", "reward": {"type": "search_em", "format_score": 0.5}}]


def test_a_step_executes_the_files_that_its_page_names(tmp_path: Path) -> None:
    folder = tmp_path / "executed"
    folder.mkdir()
    python = str(installed_runtime("training").python)
    learner = tmp_path / "learner"
    learner.write_text(f'#!/bin/sh\nexec {" ".join(recording(folder, python))} {python} "$@"\n')
    learner.chmod(0o700)
    job = OnlineJob(
        tmp_path / "job",
        make_tiny_model(tmp_path / "models" / "tiny"),
        "reinforcement",
        launcher=recording(folder),
        learner=learner,
        rewards=REWARDS,
        hyperparameters=SETTINGS,
    )
    training = threading.Thread(target=job.run)
    training.start()
    try:
        for step, phase in ((1, "step"), (3, "end")):
            wait_for(lambda: len(job.metrics()) > step, f"step {step}", 300)  # noqa: B023 - at once
            begin(phase, folder, processes=2)
    finally:
        training.join()

    ran = executed("step", folder)
    page = named("rl-step.md")
    assert {file for file in ran - page if not file.startswith(NOT_COUNTED)} == set()
    assert len(ran & page) > 40  # the page speaks of this run
