"""Jobs: the fields and calls that all kinds share, and one resource per kind."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

from services.contracts.base import Deleted, Page, Request
from services.contracts.jobs import Artifact, Attempt, Event, Job, JobKind, JobState, JobStatus
from services.contracts.kinds import kind_of
from temper.client import pages
from temper.client.errors import WaitTimedOut
from temper.client.events import EventStream
from temper.client.process_log import ProcessLog
from temper.client.transport import TRANSFER_TIME_LIMIT, Progress, Transport, download

# ruff: noqa: F401  (in the bases of classes, these are strings: a call imports what it uses)
if TYPE_CHECKING:
    from services.contracts.batches.batches import Batch, CreateBatch
    from services.contracts.evaluation.comparisons import CompareEvaluations, EvaluationComparison
    from services.contracts.evaluation.evaluations import CreateEvaluation, Evaluation
    from services.contracts.evaluation.results import ResultOrder, ResultOutcome, SampleResult
    from services.contracts.models.jobs import (
        CreateDownload,
        CreateExport,
        CreateMerge,
        Download,
        Export,
        Merge,
    )
    from services.contracts.retrieval.indexes import CreateIndexingJob, IndexingJob
    from services.contracts.rollouts.rollouts import CreateRollout, Rollout
    from services.contracts.serving import CreateServing, DeployModel, Serving, Undeployed
    from services.contracts.training.checks import Check, CreateCheck
    from services.contracts.training.fine_tuning import (
        Checkpoint,
        CreateFineTuningJob,
        FineTuningJob,
    )

FIRST_POLL = 0.2
SLOWEST_POLL = 2.0

CreateT = TypeVar("CreateT", bound=Request)
JobT = TypeVar("JobT", bound="JobState | Batch")


class Jobs:
    """``/v1/jobs``: jobs of every kind, with the fields that all kinds share."""

    path = "/v1/jobs"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def page(
        self,
        *,
        kind: JobKind | None = None,
        status: JobStatus | None = None,
        metadata: Mapping[str, str] | None = None,
        text: str | None = None,
        model: str | None = None,
        most: int = 20,
    ) -> Page[Job]:
        """Return up to ``most`` jobs that match every filter, newest first."""
        query: dict[str, str | Sequence[str]] = {}
        if metadata:
            query["metadata"] = [f"{key}={value}" for key, value in metadata.items()]
        if kind is not None:
            query["kind"] = kind.value
        if status is not None:
            query["status"] = status.value
        if text is not None:
            query["text"] = text
        if model is not None:
            query["model"] = model
        return pages.page(self._transport, self.path, Page[Job], query, most)

    def get(self, job_id: str) -> Job:
        """Return a job of any kind."""
        return self._transport.get(_path(self.path, job_id), Job)

    def cancel(self, job_id: str) -> Job:
        """Request cancellation; the status becomes final once the job's processes have exited."""
        return self._transport.post(_path(self.path, job_id, "cancel"), Job)

    def pause(self, job_id: str) -> Job:
        """Request a pause; the status becomes ``paused`` once the job's processes have exited."""
        return self._transport.post(_path(self.path, job_id, "pause"), Job)

    def resume(self, job_id: str) -> Job:
        """Requeue a paused job; it resumes from the checkpoint of the pause."""
        return self._transport.post(_path(self.path, job_id, "resume"), Job)

    def retry(self, job_id: str) -> Job:
        """Requeue a failed job; it resumes from its last checkpoint."""
        return self._transport.post(_path(self.path, job_id, "retry"), Job)

    def delete(self, job_id: str) -> Deleted:
        """Delete a finished job with its folder, events, checkpoints and models."""
        return self._transport.delete(_path(self.path, job_id), Deleted)

    def events(self, job_id: str, *, most: int = 100) -> Page[Event]:
        """Return up to ``most`` events of a job, newest first."""
        path = _path(self.path, job_id, "events")
        return pages.page(self._transport, path, Page[Event], {}, most)

    def attempts(self, job_id: str, *, most: int = 100) -> Page[Attempt]:
        """Return up to ``most`` attempts at a job, latest first."""
        path = _path(self.path, job_id, "attempts")
        return pages.page(self._transport, path, Page[Attempt], {}, most)

    def artifacts(self, job_id: str) -> Iterator[Artifact]:
        """Yield the files that a job has written so far, by path."""
        return pages.every(
            self._transport, _path(self.path, job_id, "artifacts"), Page[Artifact], {}
        )

    def artifact(self, job_id: str, name: str) -> bytes:
        """Return the content of a file of a job."""
        path = f"{_path(self.path, job_id, 'artifacts')}/{quote(name)}"
        with self._transport.stream(path, {}, {}, TRANSFER_TIME_LIMIT) as response:
            return response.read()

    def log(self, job_id: str) -> ProcessLog:
        """Return a reader of a job's process log."""
        return ProcessLog(self._transport, _path(self.path, job_id, "artifacts"))

    def follow(
        self, job_id: str, *, after: str | None = None, give_up_after: float = 120.0
    ) -> Iterator[Event]:
        """Yield a job's events, oldest first, until the job ends; start after event ``after``.

        Reconnects when a connection breaks. Raises `Unreachable` after ``give_up_after`` seconds
        without one.
        """
        path = _path(self.path, job_id, "events")
        return iter(EventStream(self._transport, path, after, give_up_after))

    def wait(self, job_id: str, *, timeout: float | None = None) -> Job:
        """Return the job once its status is final; raise `WaitTimedOut` after ``timeout``."""
        deadline = time.monotonic() + timeout if timeout is not None else math.inf
        pause = FIRST_POLL
        while not (job := self.get(job_id)).status.is_final:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimedOut(f"{job_id} is still {job.status} after {timeout:g} s")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, SLOWEST_POLL)
        return job


class JobResource(Generic[CreateT, JobT]):
    """Jobs of one kind; follow and wait for them through `Jobs`."""

    kind: str

    def __init__(self, transport: Transport, kind: str | None = None) -> None:
        self._transport = transport
        self.kind = kind or self.kind

    @property
    def path(self) -> str:
        """The collection of the jobs."""
        return kind_of(self.kind).path

    @property
    def resource(self) -> type[JobT]:
        """The type of the jobs."""
        return kind_of(self.kind).resource

    def create(self, request: CreateT) -> JobT:
        """Submit a job."""
        kind = kind_of(self.kind)
        if kind.action is None:
            return self._transport.post(self.path, self.resource, request)
        fields = request.model_dump(include=kind.given_fields, exclude_unset=True)
        path = _path("/v1/models", fields.pop("model"), kind.action)
        return self._transport.post(path, self.resource, kind.body.model_validate(fields))

    def get(self, job_id: str) -> JobT:
        """Return a job, with its results once it has succeeded."""
        return self._transport.get(_path(self.path, job_id), self.resource)

    def page(self, *, most: int = 20) -> Page[JobT]:
        """Return up to ``most`` jobs, newest first."""
        page_type: type[Page[JobT]] = Page[self.resource]  # type: ignore[name-defined]  # a type made at run time
        return pages.page(self._transport, self.path, page_type, {}, most)

    def cancel(self, job_id: str) -> JobT:
        """Request cancellation; the status becomes final once the job's processes have exited."""
        return self._transport.post(_path(self.path, job_id, "cancel"), self.resource)

    def pause(self, job_id: str) -> JobT:
        """Request a pause; the status becomes ``paused`` once the job's processes have exited."""
        return self._transport.post(_path(self.path, job_id, "pause"), self.resource)

    def resume(self, job_id: str) -> JobT:
        """Requeue a paused job; it resumes from the checkpoint of the pause."""
        return self._transport.post(_path(self.path, job_id, "resume"), self.resource)

    def retry(self, job_id: str) -> JobT:
        """Requeue a failed job; it resumes from its last checkpoint."""
        return self._transport.post(_path(self.path, job_id, "retry"), self.resource)


class FineTuning(JobResource["CreateFineTuningJob", "FineTuningJob"]):
    """``/v1/fine_tuning/jobs``."""

    kind = JobKind.FINE_TUNING

    def checkpoints(self, job_id: str, *, most: int = 20) -> Page[Checkpoint]:
        """Return up to ``most`` checkpoints of a job, newest first."""
        from services.contracts.training.fine_tuning import Checkpoint

        path = _path(self.path, job_id, "checkpoints")
        return pages.page(self._transport, path, Page[Checkpoint], {}, most)


class Evaluations(JobResource["CreateEvaluation", "Evaluation"]):
    """``/v1/evaluations``."""

    kind = JobKind.EVALUATION

    def results(
        self,
        evaluation_id: str,
        *,
        outcome: ResultOutcome | None = None,
        text: str | None = None,
        benchmark: str | None = None,
        tag: str | None = None,
        order: ResultOrder = "completion",
        most: int = 20,
    ) -> Page[SampleResult]:
        """Return up to ``most`` rows, as they finished or in the order of the file."""
        from services.contracts.evaluation.results import SampleResult

        path = _path(self.path, evaluation_id, "results")
        given = {
            **{"outcome": outcome, "text": text, "benchmark": benchmark, "tag": tag},
            "order": order,
        }
        query = {name: value for name, value in given.items() if value is not None}
        return pages.page(self._transport, path, Page[SampleResult], query, most)

    def compare(self, evaluation_id: str, request: CompareEvaluations) -> EvaluationComparison:
        """Test candidates against an evaluation of the same items."""
        from services.contracts.evaluation.comparisons import EvaluationComparison

        path = _path(self.path, evaluation_id, "compare")
        return self._transport.post(path, EvaluationComparison, request)


class Rollouts(JobResource["CreateRollout", "Rollout"]):
    """``/v1/rollouts``; `Trajectories` returns the conversations."""

    kind = JobKind.ROLLOUT

    def download(self, job_id: str, target: Path, progress: Progress | None = None) -> None:
        """Write the trajectories of a succeeded job to ``target``, as Parquet."""
        download(self._transport, _path(self.path, job_id, "content"), target, progress)


class Batches(JobResource["CreateBatch", "Batch"]):
    """``/v1/batches``."""

    kind = JobKind.BATCH


class Indexing(JobResource["CreateIndexingJob", "IndexingJob"]):
    """``/v1/indexing/jobs``."""

    kind = JobKind.INDEXING


class Checks(JobResource["CreateCheck", "Check"]):
    """``/v1/checks``."""

    kind = JobKind.CHECK


class Merges(JobResource["CreateMerge", "Merge"]):
    """``/v1/merges``."""

    kind = JobKind.MERGE


class Exports(JobResource["CreateExport", "Export"]):
    """``/v1/exports``."""

    kind = JobKind.EXPORT


class Downloads(JobResource["CreateDownload", "Download"]):
    """``/v1/downloads``."""

    kind = JobKind.DOWNLOAD


class Servings(JobResource["CreateServing", "Serving"]):
    """``/v1/servings``."""

    kind = JobKind.SERVE

    def deploy(self, model: str, request: DeployModel) -> Serving:
        """Start a model's engine, or change whether a running one is kept warm."""
        from services.contracts.serving import Serving

        return self._transport.post(_path("/v1/models", model, "deploy"), Serving, request)

    def undeploy(self, model: str) -> Undeployed:
        """Stop the engine that serves a model."""
        from services.contracts.serving import Undeployed

        return self._transport.post(_path("/v1/models", model, "undeploy"), Undeployed)


def _path(collection: str, job_id: str, *below: str) -> str:
    return "/".join([collection, quote(job_id, safe=""), *below])
