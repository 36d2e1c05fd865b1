"""Trackio, in a folder of this host, on a server or in a space, by the package's own variables."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import trackio

from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker


class TrackioTracker(Tracker):
    """A run with the job's id as its name, by which trackio continues runs."""

    def start(self, run: TrackedRun, config: Mapping[str, Any], _saved: Mapping[str, Any]) -> None:
        self._run = trackio.init(
            project=run.project or os.environ.get("TRACKIO_PROJECT") or "temper",
            name=run.id,
            group=run.kind,
            config={**config, "name": run.name, "tags": list(run.tags)},
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def log(self, step: int, metrics: Mapping[str, float], _time: float) -> None:
        """One row of the run."""
        self._run.log(dict(metrics), step=step)

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """One conversation for each sample."""
        traces = [
            trackio.Trace(
                messages=[
                    {"role": "user", "content": item.prompt},
                    {"role": "assistant", "content": item.response},
                ],
                metadata={**item.details, "reward": item.reward},
            )
            for item in items
        ]
        self._run.log({"traces": traces}, step=step)

    def finish(self, _state: End) -> None:
        """Flush the buffer."""
        self._run.finish()
