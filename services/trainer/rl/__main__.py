"""The coordinator process of an online training job.

``python -m services.trainer.rl JOB_DIR`` in the core environment. Reads ``spec.json``, starts the
learner and the engine in their runtimes, writes ``trajectories.jsonl`` and checkpoints, and
finishes with a model in ``output/model``. Safe to kill at any time: started again on the same
folder, it resumes. On a pause request it writes a checkpoint and exits.
"""

import asyncio
import os
import platform
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from services.contracts.errors import TemperError
from services.core.artifacts import write_stop_tokens
from services.core.operator_environment import OperatorEnvironment
from services.core.process.outages import Outage, pause_for
from services.core.process.reporter import Reporter, pause_requested, succeeded_before
from services.inference.vllm.server import VllmFailed
from services.rollouts.audit.report import audit_folder, weights_of
from services.rollouts.chat import open_chat_tokens
from services.trainer.hub import model_folder
from services.trainer.model_files import name_base
from services.trainer.rl.checkpoints import TrainingPosition, strip_checkpoints
from services.trainer.rl.learner.client import LearnerFailed
from services.trainer.rl.loop import Training
from services.trainer.rl.setup import OUTPUT, OpenTraining, open_training
from services.trainer.rl.spec import SPEC, OnlineSpec, OnlineTask, online_method
from services.trainer.rl.weight_folder import WEIGHTS
from services.trainer.step_metrics import write_step_metrics

MODEL = f"{OUTPUT}/model"
POLL_SECONDS = 0.25


def main(job_dir: Path) -> None:
    """Run the training that the job directory describes; the outcome goes to its result.json."""
    # Removed from os.environ, so that no child process inherits a key.
    environment = OperatorEnvironment.take_from(os.environ)
    if succeeded_before(job_dir):
        _strip(job_dir)
        return
    reporter = Reporter(job_dir)
    asked = OnlineTask.model_validate_json((job_dir / SPEC).read_bytes())
    try:
        spec = asked.located(
            lambda model, param: model_folder(model, job_dir, reporter.phase, param, reporter)
        )
        position = asyncio.run(_train(spec, job_dir, reporter, environment))
        if position is not None:
            name_base(job_dir / MODEL, asked.model)
    except asyncio.CancelledError:
        if pause_requested(job_dir):
            reporter.paused()
            return
        sys.exit(128 + signal.SIGTERM)
    except (TemperError, BaseExceptionGroup) as group:
        error = cause_of(group)
        if not isinstance(error, TemperError):
            raise
        if isinstance(error, Outage):
            pause_for(error, job_dir, reporter)
            return
        if isinstance(error, LearnerFailed):
            reporter.message("The learner failed", "error", log_tail=error.log_tail)
        if isinstance(error, VllmFailed):
            reporter.message("The engine failed", "error", log_tail=error.last_lines)
        reporter.fail(error.code, error.message, error.param, retryable=error.retryable)
    else:
        if position is None:
            reporter.paused()
            return
        write_step_metrics(job_dir)
        reporter.finish(**_result(spec, position))
        _strip(job_dir)


def _audit(spec: OnlineSpec, job_dir: Path, reporter: Reporter) -> None:
    """Report whether the reward was earned; a warning if it looks gamed."""
    weights = weights_of(online_method(spec.method))
    if not weights:
        return
    audit = audit_folder(job_dir, weights)
    found = [f"{check.name.value}: {check.message}" for check in audit.checks if check.flagged]
    text = f"The reward may be gamed: {'; '.join(found)}" if found else "Reward audit: no signs"
    level = "warn" if found else "info"
    reporter.message(text, level, audit=audit.model_dump(mode="json"))


def _strip(job_dir: Path) -> None:
    """Delete what only resuming needs, once there is a result."""
    strip_checkpoints(job_dir / OUTPUT)
    shutil.rmtree(job_dir / WEIGHTS, ignore_errors=True)


async def _train(
    spec: OnlineSpec, job_dir: Path, reporter: Reporter, environment: OperatorEnvironment
) -> TrainingPosition | None:
    """Train to the end; None when the training was paused, with its checkpoint. Raises `Outage`
    when it paused by itself."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a running loop
    # Cancellation unwinds in order: trajectories are synced, learner and engine stopped.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    pause = PauseWatch(job_dir, task)
    async with open_training(spec, job_dir, reporter, environment, pause.requested) as opened:
        write_stop_tokens(job_dir / OUTPUT, _stop_token_ids(spec))
        await opened.training.begin(opened.position.version)
        pause.begin()
        reporter.phase("training")
        position = await _run_training(opened)
        if position.step < opened.training.settings.steps:
            outages = opened.training.outages
            if outages is not None and outages.outage is not None:
                raise outages.outage
            return None
        reporter.phase("saving")
        await _export(opened.training, job_dir / MODEL)
    _audit(spec, job_dir, reporter)
    return position


class PauseWatch:
    """Sets ``requested`` when the worker asks for a pause; until `begin`, when there is nothing to
    save, it cancels the task ``starting`` as well."""

    def __init__(self, job_dir: Path, starting: asyncio.Task[Any]) -> None:
        self.requested = asyncio.Event()
        self._job_dir = job_dir
        self._starting: asyncio.Task[Any] | None = starting
        self._task = asyncio.create_task(self._watch())

    def begin(self) -> None:
        """From now on, leave handling a pause to the training loop."""
        self._starting = None

    async def _watch(self) -> None:
        while not pause_requested(self._job_dir):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(POLL_SECONDS)
        self.requested.set()
        if self._starting is not None:
            self._starting.cancel()


async def _run_training(opened: OpenTraining) -> TrainingPosition:
    """Train while rollouts run in the background; whichever fails first cancels the other."""
    training = opened.training
    async with asyncio.TaskGroup() as tasks:
        beside = [
            tasks.create_task(training.scheduler.run(opened.restored)),
            tasks.create_task(training.engine.watch()),
            tasks.create_task(training.log.sync_forever()),
        ]
        position = await training.run(opened.position)
        for task in beside:
            task.cancel()
    return position


async def _export(training: Training, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed attempt
    await training.learner.export(folder)


def _stop_token_ids(spec: OnlineSpec) -> list[int]:
    chat = open_chat_tokens(spec.tokenizer_folder, weights=spec.model)
    stop_token_ids = [*chat.stop_token_ids, *spec.stop_token_ids]
    return list(dict.fromkeys(stop_token_ids))


def _result(spec: OnlineSpec, position: TrainingPosition) -> dict[str, Any]:
    settings = online_method(spec.method).hyperparameters
    return {
        "kind": settings.optimizer.training_type.value,
        "model_dir": MODEL,
        "needs_merge": False,
        "stop_token_ids": _stop_token_ids(spec),
        "global_step": position.step,
        "max_steps": settings.steps,
        "trained_tokens": position.trained_tokens,
        "train_seconds": round(position.train_seconds, 3),
        "arguments": spec.method.resolved(),
        "library_versions": {
            "python": platform.python_version(),
            "training": spec.training.version,
            "vllm": spec.vllm.version,
        },
    }


def cause_of(error: BaseException) -> BaseException:
    """The first `TemperError` in a group of errors, else the first error; an error outside a group
    is its own cause."""
    leaves = _leaves(error)
    return next((leaf for leaf in leaves if isinstance(leaf, TemperError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
