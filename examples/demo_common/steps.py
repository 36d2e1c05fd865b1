"""Steps of a demo through the REST API; each reuses results of earlier runs."""

import hashlib
from pathlib import Path

from examples.demo_common.printer import Printer
from examples.demo_common.setup import DemoFailed
from temper import Temper
from temper.types import (
    CreateEvaluation,
    CreateFineTuningJob,
    CreateIndexingJob,
    CreateMerge,
    CreateRollout,
    Evaluation,
    Event,
    File,
    FilePurpose,
    FineTuningJob,
    JobKind,
    JobState,
    JobStatus,
    RegisterModel,
    Rollout,
)

LABEL = "demo"
STATUS_SECONDS = 60.0
"""Time limit for the final status, which may appear shortly after the last event."""
SHOWN_METRICS = 4
LARGE = 1000
DemoRequest = (
    CreateFineTuningJob | CreateEvaluation | CreateRollout | CreateIndexingJob | CreateMerge
)
_FILE_FIELDS = frozenset({"training_file", "validation_file", "file"})


class Demo:
    """The steps, on one gateway."""

    def __init__(self, client: Temper, out: Printer, home: Path) -> None:
        self.client = client
        self.out = out
        self.home = home

    def register(self, folder: Path) -> str:
        """Register a base model; return its name."""
        name = folder.name
        if self.client.models.find(name) is not None:
            self.out.note(f"  reusing the registered model {name}")
        else:
            self.client.models.register(RegisterModel(id=name, folder=name))
            self.out.note(f"  registered {name}")
        return name

    def upload(self, path: Path, purpose: FilePurpose) -> File:
        """Upload a file unless the gateway has it already."""
        known = self.client.files.same_content(path, purpose)
        if known is not None:
            self.out.note(f"  reusing {path.name}, uploaded as {known.id}")
            return known
        stored = self.client.files.upload(path, purpose)
        self.out.note(f"  uploaded {path.name} as {stored.id}")
        return stored

    def submit(self, request: DemoRequest, *data: File) -> str:
        """Submit a job unless an identical one exists that has not failed; return its id."""
        body = request.model_dump_json(exclude={*_FILE_FIELDS, "metadata"})
        contents = "".join(file.sha256 or "" for file in data)
        label = hashlib.sha256(f"{body}{contents}".encode()).hexdigest()[:32]
        for job in self.client.jobs.page(kind=_kind(request), metadata={LABEL: label}).data:
            if job.status not in {JobStatus.FAILED, JobStatus.CANCELLED}:
                self.out.note(f"  reusing {job.id} ({job.status.value})")
                return job.id
        created = self._create(request.model_copy(update={"metadata": {LABEL: label}}))
        self.out.note(f"  submitted {created.id}")
        return created.id

    def _create(self, request: DemoRequest) -> JobState:
        match request:
            case CreateFineTuningJob():
                return self.client.fine_tuning.create(request)
            case CreateEvaluation():
                return self.client.evaluations.create(request)
            case CreateIndexingJob():
                return self.client.indexing.create(request)
            case CreateRollout():
                return self.client.rollouts.create(request)
            case CreateMerge():
                return self.client.merges.create(request)

    def finish(self, job_id: str) -> None:
        """Follow a job to its end; raise `DemoFailed` unless it succeeded."""
        if self.client.jobs.get(job_id).status is JobStatus.SUCCEEDED:
            return
        for event in self.client.jobs.follow(job_id):
            self.out.note(f"  {_described(event)}")
        job = self.client.jobs.wait(job_id, timeout=STATUS_SECONDS)
        if job.status is not JobStatus.SUCCEEDED:
            reason = job.error.message if job.error else job.status.value
            raise DemoFailed(f"{job_id}: {reason}; log: {self.home}/jobs/{job_id}/log.txt")

    def evaluated(self, job_id: str) -> Evaluation:
        """Follow an evaluation to its end; raise `DemoFailed` without metrics."""
        self.finish(job_id)
        evaluation = self.client.evaluations.get(job_id)
        if evaluation.metrics is None:
            raise DemoFailed(f"{job_id} has no metrics")
        return evaluation

    def convert(self, request: CreateMerge) -> str:
        """Merge or convert a model to the end; return the name of the result."""
        job_id = self.submit(request)
        self.finish(job_id)
        return self.client.merges.get(job_id).merged_model or ""

    def train(self, request: CreateFineTuningJob, file: File) -> FineTuningJob:
        """Fine-tune to the end."""
        job_id = self.submit(request, file)
        self.finish(job_id)
        return self.client.fine_tuning.get(job_id)

    def sample(self, request: CreateRollout, file: File) -> Rollout:
        """Sample rollouts to the end; raise `DemoFailed` without rewards."""
        job_id = self.submit(request, file)
        self.finish(job_id)
        job = self.client.rollouts.get(job_id)
        if job.statistics is None or job.statistics.reward is None:
            raise DemoFailed(f"{job_id} has no rewards")
        return job


def _described(event: Event) -> str:
    """Describe an event: its message, or the first metrics of a step."""
    if event.type != "metrics" or not event.data:
        return event.message
    metrics = [
        f"{name} {value:,.0f}" if abs(value) >= LARGE else f"{name} {value:.4g}"
        for name, value in event.data.items()
        if name != "step" and isinstance(value, int | float)
    ]
    return f"step {event.data.get('step')}: {', '.join(metrics[:SHOWN_METRICS])}"


def _kind(request: DemoRequest) -> JobKind:
    match request:
        case CreateFineTuningJob():
            return JobKind.FINE_TUNING
        case CreateEvaluation():
            return JobKind.EVALUATION
        case CreateIndexingJob():
            return JobKind.INDEXING
        case CreateRollout():
            return JobKind.ROLLOUT
        case CreateMerge():
            return JobKind.MERGE
