"""SwanLab: online, offline or self-hosted, configured by the package's own variables."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import swanlab

from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker


class SwanlabTracker(Tracker):
    """A run whose id is the job's."""

    def start(self, run: TrackedRun, config: Mapping[str, Any], _saved: Mapping[str, Any]) -> None:
        """Create the run, or continue it; without a key it is offline."""
        folder = Path(os.environ["SWANLAB_LOGDIR"])
        folder.mkdir(parents=True, exist_ok=True)
        online = "SWANLAB_API_KEY" in os.environ
        self._run = swanlab.init(
            id=run.id,
            resume="allow",
            name=run.name,
            project=run.project or os.environ.get("SWANLAB_PROJ_NAME") or "temper",
            workspace=run.entity,
            job_type=run.kind,
            tags=list(run.tags),
            config=dict(config),
            log_dir=str(folder),
            mode=os.environ.get("SWANLAB_MODE") or ("online" if online else "offline"),
        )

    def log(self, step: int, metrics: Mapping[str, float], _time: float) -> None:
        """Metrics of a step."""
        self._run.log(dict(metrics), step=step)

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """One text for each sample."""
        texts = [
            swanlab.Text(f"{item.prompt}\n\n{item.response}", caption=f"reward {item.reward}")
            for item in items
        ]
        self._run.log({"traces": texts}, step=step)

    def finish(self, state: End) -> None:
        """Flush the buffer."""
        if state is End.FAILED:
            self._run.finish(state="crashed", error="the job failed")
        elif state is End.SUCCEEDED:
            self._run.finish()
        else:
            self._run.finish(state="aborted")
