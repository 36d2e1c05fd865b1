"""MLflow, in a database of this host or on a server, by the package's own variables."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker

MAX_PARAM = 500
PARAMS_PER_BATCH = 100
METRICS_PER_BATCH = 1000
_STATUS = {End.SUCCEEDED: "FINISHED", End.FAILED: "FAILED", End.CANCELLED: "KILLED"}


class MlflowTracker(Tracker):
    """A run with the job's id as a tag; its own id is saved for the next process."""

    def start(self, run: TrackedRun, config: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        self._client = MlflowClient()
        self._run_id = str(saved.get("run_id") or self._create(run, config))
        self._client.update_run(self._run_id, status="RUNNING")
        self.saved = {"run_id": self._run_id}

    def log(self, step: int, metrics: Mapping[str, float], time: float) -> None:
        """The metrics, with the time of their report."""
        at = int(time * 1000)
        values = [Metric(_name(name), value, at, step) for name, value in metrics.items()]
        for first in range(0, len(values), METRICS_PER_BATCH):
            batch = values[first : first + METRICS_PER_BATCH]
            self._client.log_batch(self._run_id, metrics=batch)

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """An artifact with the samples."""
        samples = {"traces": [asdict(item) for item in items]}
        self._client.log_dict(self._run_id, samples, f"traces/step-{step}.json")

    def finish(self, state: End) -> None:
        """Set the status; an interrupted run stays open."""
        if state is not End.INTERRUPTED:
            self._client.set_terminated(self._run_id, _STATUS[state])

    def _create(self, run: TrackedRun, config: Mapping[str, Any]) -> str:
        experiment = run.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "temper"
        tags = {"temper.job": run.id, "temper.kind": run.kind}
        tags |= {f"temper.tag.{number}": tag for number, tag in enumerate(run.tags)}
        created = self._client.create_run(
            self._experiment(experiment), run_name=run.name, tags=tags
        )
        params = [Param(name[:250], value[:MAX_PARAM]) for name, value in _flat("", config)]
        for first in range(0, len(params), PARAMS_PER_BATCH):
            batch = params[first : first + PARAMS_PER_BATCH]
            self._client.log_batch(created.info.run_id, params=batch)
        return str(created.info.run_id)

    def _experiment(self, name: str) -> str:
        """The id of an experiment, which another job may create concurrently."""
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)


def _name(metric: str) -> str:
    """A name of the characters that MLflow allows."""
    return "".join(each if each.isalnum() or each in "_-. :/" else "_" for each in metric)[:250]


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Nested settings as names with dots."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), item)
    elif prefix:
        yield prefix, str(value)
