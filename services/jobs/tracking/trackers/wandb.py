"""Weights & Biases: online, offline or self-hosted, configured by the package's own variables."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker

INIT_SECONDS = 120.0
"""Longest wait for the server when a run begins."""
STEP = "step"


class WandbTracker(Tracker):
    """A run whose id is the job's.

    ``step`` is a metric, the x-axis of all others, because W&B's own counter accepts no step twice:
    training and evaluation report the same one separately.
    """

    def start(self, run: TrackedRun, config: Mapping[str, Any], _saved: Mapping[str, Any]) -> None:
        folder = Path(os.environ["WANDB_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            id=run.id,
            resume="allow",
            name=run.name,
            project=run.project or os.environ.get("WANDB_PROJECT") or "temper",
            entity=run.entity,
            job_type=run.kind,
            tags=list(run.tags),
            config=dict(config),
            dir=folder,
            settings=wandb.Settings(
                init_timeout=INIT_SECONDS,
                console="off",
                silent=True,
                disable_git=True,
                save_code=False,
                x_disable_meta=True,
                x_disable_stats=True,
            ),
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)

    def log(self, step: int, metrics: Mapping[str, float], _time: float) -> None:
        """One row of the run's history."""
        self._run.log({**metrics, STEP: step})

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """A table of samples."""
        rows = [[item.prompt, item.response, item.reward] for item in items]
        table = wandb.Table(columns=["prompt", "response", "reward"], data=rows)
        self._run.log({"traces": table, STEP: step})

    def finish(self, state: End) -> None:
        """Flush the buffer. W&B shows an interrupted run as preempted until it resumes."""
        if state is End.INTERRUPTED:
            self._run.mark_preempting()
        self._run.finish(exit_code=0 if state is End.SUCCEEDED else 1)
