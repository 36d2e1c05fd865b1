"""Which trackers a job has, and which environment variables their processes get."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.training.integrations import Integration, WandbSettings
from services.core.extensions import extension_names, find_extension
from services.core.process.runtimes import RuntimeMissing, find_runtime
from services.jobs.job import Job
from services.jobs.tracking.tracker import TrackedRun

RUNTIME = "tracking"
DATA = "trackers"
"""Folder of the home for what trackers keep on this host."""


GROUP = "temper.trackers"
"""Entry points of trackers that other packages add."""


class TrackerName(StrEnum):
    """Our trackers that a setting can name; TensorBoard's files are always written."""

    WANDB = "wandb"
    TRACKIO = "trackio"
    MLFLOW = "mlflow"
    SWANLAB = "swanlab"


def known_tracker(name: str) -> str:
    """Return ``name``; raises ValueError if it is neither a tracker of ours nor an extension."""
    if name in set(TrackerName) or find_extension(GROUP, name) is not None:
        return name
    known = ", ".join([*TrackerName, *extension_names(GROUP)])
    raise ValueError(f"{name!r} is not a tracker; known are {known}")


@dataclass(frozen=True)
class TrackerSpec:
    """One tracker of a job: its interpreter, its class as ``module:Class``, what it is told of the
    job, its working directory, and its environment beyond what all children inherit."""

    name: str
    python: Path
    target: str
    run: TrackedRun
    config: JsonObject
    data: Path
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class TrackerSelection:
    """The trackers of a job, and why others that were asked for are missing."""

    specs: list[TrackerSpec]
    warnings: list[str]


def select_trackers(
    job: Job,
    names: Sequence[str],
    *,
    job_dir: Path,
    home: Path,
    runtimes: Path,
    environ: Mapping[str, str] = os.environ,
) -> TrackerSelection:
    """TensorBoard, the operator's trackers ``names``, ours or extensions, and W&B if the client
    requested it and the operator has set it up.

    A tracker is given the variables of ``environ`` that are its own by their prefix.
    """
    config = {name: value for name, value in job.request.items() if name != "integrations"}
    run = TrackedRun(job.id, str(config.get("suffix") or job.id), job.kind, str(job_dir))
    target = f"{_MODULES}.tensorboard:TensorBoardTracker"
    specs = [TrackerSpec("tensorboard", Path(sys.executable), target, run, config, home / DATA)]
    asked, warnings = _asked_of_wandb(job), []
    wanted = set(names)
    if asked is not None and TrackerName.WANDB not in wanted:
        if any(environ.get(variable) for variable in ("WANDB_API_KEY", "WANDB_MODE")):
            wanted.add(TrackerName.WANDB)
        else:
            warnings.append("W&B is not set up here: the job's integration has no effect")
    for name in (each for each in TrackerName if each in wanted):
        try:
            python = find_runtime(runtimes, RUNTIME).python
        except RuntimeMissing as error:
            warnings.append(f"{name} does not track this job: {error.message}")
            continue
        chosen = _named_by_client(run, asked) if name is TrackerName.WANDB else run
        target = f"{_MODULES}.{name}:{name.capitalize()}Tracker"
        environment = _environment(name, home / DATA, environ)
        specs.append(TrackerSpec(name, python, target, chosen, config, home / DATA, environment))
    for other in sorted(wanted - set(TrackerName)):
        found = find_extension(GROUP, other)
        if found is None:
            warnings.append(f"{other} does not track this job: its extension is not installed")
            continue
        own = _variables_of(other, environ)
        here = Path(sys.executable)
        specs.append(TrackerSpec(other, here, found.value, run, config, home / DATA, own))
    return TrackerSelection(specs, warnings)


_MODULES = "services.jobs.tracking.trackers"


def _asked_of_wandb(job: Job) -> WandbSettings | None:
    integrations = [
        Integration.model_validate(each) for each in job.request.get("integrations") or ()
    ]
    return integrations[0].wandb if integrations else None


def _named_by_client(run: TrackedRun, asked: WandbSettings | None) -> TrackedRun:
    if asked is None:
        return run
    tags = tuple(asked.tags or ())
    name = asked.name or run.name
    return TrackedRun(run.id, name, run.kind, run.folder, asked.project, asked.entity, tags)


def _environment(name: TrackerName, data: Path, environ: Mapping[str, str]) -> dict[str, str]:
    local: dict[TrackerName, dict[str, Any]] = {
        TrackerName.WANDB: {"WANDB_DIR": data / "wandb"},
        TrackerName.TRACKIO: {"TRACKIO_DIR": data / "trackio"},
        TrackerName.MLFLOW: {"MLFLOW_TRACKING_URI": f"sqlite:///{data / 'mlflow.db'}"},
        TrackerName.SWANLAB: {"SWANLAB_LOGDIR": data / "swanlab"},
    }
    defaults = {variable: str(value) for variable, value in local[name].items()}
    return {**defaults, **_variables_of(name, environ)}


def _variables_of(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{name.upper().replace('-', '_')}_"
    return {variable: value for variable, value in environ.items() if variable.startswith(prefix)}
