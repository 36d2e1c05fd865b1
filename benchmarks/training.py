"""Offline training through the platform, compared with the same training by hand.

    python -m benchmarks.training [--stages sft,dpo,kto,rm,pt] [--rows 640]

Writes a LLaMA-Factory training file for each stage, with a tiny model and generated data. It is
submitted to a local stack as `temper submit` does, and run in the training runtime as
`llamafactory-cli train` does. Prints the seconds of both from the command to the finished model,
the platform's overhead beyond a fixed 2 seconds, and both final losses, with equal seeds. Then it
pauses and resumes a training job: seconds until its device is free, and until its next step.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import yaml

from examples.demo_common.printer import Printer
from examples.demo_common.setup import local_stack, make_model
from services.contracts.jobs import JobStatus
from services.contracts.models.registered import RegisterModel
from services.core.process.runtimes import REPOSITORY, child_environment
from temper.client import Temper
from temper.submission.job_file import read_job_file
from temper.submission.submit import Reporting, submit
from tests.support.runtimes import FOLDER

STAGES = ("sft", "dpo", "kto", "rm", "pt")
MODEL = "tiny"
FIXED_SECONDS = 2.0
DEADLINE = 900.0
BATCH = 8
OPENMP = {"OMP_WAIT_POLICY": "PASSIVE"}
"""As in the platform's trainings: threads that spin cost a busy machine more than the platform."""
BY_HAND = """
from services.trainer.offline.library.internals import llamafactory_module
llamafactory_module("train.tuner").run_exp()
"""
"""What `llamafactory-cli train` runs, with a stand-in for torchaudio, which has no CPU wheel."""

_PAIR = {"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected"}
DATASETS: dict[str, dict[str, Any]] = {
    "sft": {"file_name": "sft.json"},
    "dpo": {"file_name": "dpo.json", "ranking": True, "columns": _PAIR},
    "rm": {"file_name": "rm.json", "ranking": True, "columns": _PAIR},
    "kto": {
        "file_name": "kto.json",
        "columns": {"prompt": "instruction", "response": "output", "kto_tag": "label"},
    },
    "pt": {"file_name": "pt.json", "columns": {"prompt": "text"}},
}


def row(stage: str, number: int) -> dict[str, Any]:
    """Return a row about the number in the stage's format."""
    question, right = f"What follows {number}?", f"{number + 1} follows."
    match stage:
        case "dpo" | "rm":
            answers = {"chosen": right, "rejected": f"It is {number}."}
            return {"instruction": question, "input": "", **answers}
        case "kto":
            judged = {"output": right if number % 2 else "No.", "label": bool(number % 2)}
            return {"instruction": question, **judged}
        case "pt":
            return {"text": f"{question} {right} " * 4}
        case _:
            return {"instruction": question, "input": "", "output": right}


def write_training(folder: Path, stage: str, rows: int, model: str, **changes: Any) -> Path:
    """Write the data and the training file of a stage; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_info.json").write_text(json.dumps({stage: DATASETS[stage]}))
    (folder / f"{stage}.json").write_text(json.dumps([row(stage, n) for n in range(rows)]))
    settings: dict[str, Any] = {
        "model_name_or_path": model,
        "stage": stage,
        "do_train": True,
        "finetuning_type": "full",
        "dataset_dir": str(folder),
        "dataset": stage,
        "template": "chatml",
        "cutoff_len": 128,
        "output_dir": str(folder / "output"),
        "logging_steps": 10,
        "save_strategy": "no",
        "report_to": "none",
        "per_device_train_batch_size": BATCH,
        "gradient_accumulation_steps": 1,
        "learning_rate": 1.0e-3,
        "num_train_epochs": 1.0,
        "lr_scheduler_type": "cosine",
        "seed": 7,
        "disable_gradient_checkpointing": True,
        **changes,
    }
    if stage == "pt":
        del settings["template"]
    path = folder / "training.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def by_hand(training: Path) -> tuple[float, float]:
    """Return seconds and final loss of training in a process of the runtime.

    It runs in its own session, as the platform's does: Linux divides the cores among sessions.
    """
    python = FOLDER / "training" / "bin" / "python"
    began = time.monotonic()
    subprocess.run(
        [python, "-c", BY_HAND, training],
        env=child_environment({"HF_HUB_OFFLINE": "1", **OPENMP}),
        cwd=REPOSITORY,
        start_new_session=True,
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )
    seconds = time.monotonic() - began
    result = json.loads((training.parent / "output" / "train_results.json").read_bytes())
    return seconds, float(result["train_loss"])


def submitted(client: Temper, training: Path) -> str:
    """Submit a training file; return the job's id."""
    quiet = Reporting(note=lambda _: None, transfer=lambda _: nullcontext())
    with tempfile.TemporaryDirectory() as scratch:
        return submit(client, read_job_file(training, Path(scratch)), quiet).id


def through_the_platform(client: Temper, home: Path, training: Path) -> tuple[float, float]:
    """Return seconds and final loss of the same training as a job."""
    began = time.monotonic()
    job_id = submitted(client, training)
    until(lambda: client.jobs.get(job_id).status.is_final)
    seconds = time.monotonic() - began
    job = client.jobs.get(job_id)
    if job.status is not JobStatus.SUCCEEDED:
        raise SystemExit(f"{job_id}: {job.error.message if job.error else job.status.value}")
    result = json.loads((home / "jobs" / job_id / "result.json").read_bytes())
    return seconds, float(result["train_loss"])


def paused_and_resumed(client: Temper, training: Path) -> tuple[float, float]:
    """Return seconds from pause to free device, and from resumption to the next step."""
    job_id = submitted(client, training)

    def step() -> int:
        progress = client.jobs.get(job_id).progress
        return int(progress.step) if progress is not None else 0

    until(lambda: step() > 0)
    began = time.monotonic()
    client.jobs.pause(job_id)
    until(lambda: client.jobs.get(job_id).status is JobStatus.PAUSED)
    freed, reached = time.monotonic() - began, step()
    began = time.monotonic()
    client.jobs.resume(job_id)
    until(lambda: step() > reached)
    resumed = time.monotonic() - began
    client.jobs.cancel(job_id)
    client.jobs.wait(job_id, timeout=DEADLINE)
    return freed, resumed


def until(reached: Callable[[], bool]) -> None:
    """Wait until a job reaches a state."""
    deadline = time.monotonic() + DEADLINE
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit("the job did not reach the state in time")
        time.sleep(0.05)


def main(stages: list[str], rows: int) -> None:
    """Compare the stages one by one, then pause and resume."""
    out = Printer()
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        os.environ |= {"TEMPER_HOME": str(home), "TEMPER_RUNTIMES": str(FOLDER)}
        model = make_model(home, MODEL, "demo_1_addition/model.py", ["--seed", "0"], out)
        print("stage   by hand   platform   beyond 2 s   loss by hand   platform")
        with local_stack(home, out) as client:
            client.models.register(RegisterModel(id=MODEL, folder=MODEL))
            for stage in stages:
                hand = by_hand(write_training(work / "hand" / stage, stage, rows, str(model)))
                training = write_training(work / "job" / stage, stage, rows, MODEL)
                job = through_the_platform(client, home, training)
                beyond = (job[0] - FIXED_SECONDS) / hand[0] - 1
                print(
                    f"{stage:5} {hand[0]:7.1f} s {job[0]:8.1f} s {beyond:12.1%}"
                    f" {hand[1]:14.5f} {job[1]:10.5f}"
                )
            long = write_training(work / "long", "sft", rows, MODEL, num_train_epochs=100.0)
            freed, resumed = paused_and_resumed(client, long)
            print(f"pause to free device {freed:.1f} s, resumption to next step {resumed:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stages", default=",".join(STAGES), help="comma-separated")
    parser.add_argument("--rows", type=int, default=640)
    chosen = parser.parse_args()
    main(chosen.stages.split(","), chosen.rows)
