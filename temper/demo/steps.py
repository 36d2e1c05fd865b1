"""The steps of the demonstration through REST, each of which uses what a former run left."""

import hashlib
from pathlib import Path

from infra.demo.outcome import Outcome
from services.common.contracts.adaptation import TrainingType
from services.common.contracts.evaluations import (
    CreateEvaluation,
    Evaluation,
    NumericGrader,
    Sampling,
)
from services.common.contracts.files import File, FilePurpose
from services.common.contracts.fine_tuning import (
    CreateFineTuningJob,
    FineTuningJob,
    Method,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from services.common.contracts.jobs import JobKind, JobStatus
from services.common.contracts.models import RegisterModel
from temper.cli.follow import Follower
from temper.cli.output import Output
from temper.cli.transfer import transfer_bar
from temper.client import ClientError, Temper

BASE = "tiny-base"
LABEL = "demo"


class DemoFailed(ClientError):
    """The demonstration cannot go on."""

    code = "demo_failed"


class Demo:
    """The steps on one gateway."""

    def __init__(self, client: Temper, out: Output, home: Path) -> None:
        self.client = client
        self.out = out
        self.home = home

    def register_base(self, folder: Path) -> None:
        """Make the base model known to the gateway."""
        if self.client.models.find(BASE) is not None:
            self.out.note(f"  reusing the registered model {BASE}")
            return
        self.client.models.register(RegisterModel(id=BASE, folder=folder.name))
        self.out.note(f"  registered {BASE}")

    def upload(self, path: Path, purpose: FilePurpose) -> File:
        """Upload a file unless the gateway has it."""
        known = self.client.files.same_content(path, purpose)
        if known is not None:
            self.out.note(f"  reusing {path.name}, uploaded as {known.id}")
            return known
        with transfer_bar(self.out, f"uploading {path.name}") as progress:
            stored = self.client.files.upload(path, purpose, progress)
        self.out.note(f"  uploaded {path.name} as {stored.id}")
        return stored

    def submit(self, request: CreateFineTuningJob | CreateEvaluation, data: File) -> str:
        """Submit a job unless there is one like it that has not failed; return its id."""
        body = request.model_dump_json(exclude={"training_file", "file", "metadata"})
        label = hashlib.sha256(f"{body}{data.sha256}".encode()).hexdigest()[:32]
        is_training = isinstance(request, CreateFineTuningJob)
        kind = JobKind.FINE_TUNING if is_training else JobKind.EVALUATION
        for job in self.client.jobs.page(kind=kind, metadata={LABEL: label}).data:
            if job.status not in {JobStatus.FAILED, JobStatus.CANCELLED}:
                self.out.note(f"  reusing {job.id} ({job.status.value})")
                return job.id
        labelled = request.model_copy(update={"metadata": {LABEL: label}})
        created: FineTuningJob | Evaluation = (
            self.client.fine_tuning.create(labelled)
            if isinstance(labelled, CreateFineTuningJob)
            else self.client.evaluations.create(labelled)
        )
        self.out.note(f"  submitted {created.id}")
        return created.id

    def finish(self, job_id: str) -> None:
        """Follow a job to its end; raise `DemoFailed` unless it succeeded."""
        if self.client.jobs.get(job_id).status is JobStatus.SUCCEEDED:
            return
        job = Follower(self.client, self.out).follow(job_id)
        if job.status is not JobStatus.SUCCEEDED:
            reason = job.error.message if job.error else job.status.value
            raise DemoFailed(f"{job_id}: {reason}; its log is {self.home}/jobs/{job_id}/log.txt")

    def run(self, model_folder: Path, data: Path) -> Outcome:
        """Teach and test."""
        self.out.line("(b) base model and data")
        self.register_base(model_folder)
        training = self.upload(data / "train.jsonl", FilePurpose.FINE_TUNE)
        held_out = self.upload(data / "heldout.jsonl", FilePurpose.EVALS)
        self.out.line("(c) supervised fine-tune, and the base model's evaluation behind it")
        tuning_id = self.submit(training_request(training), training)
        before_id = self.submit(evaluation_request(BASE, held_out), held_out)
        self.finish(tuning_id)
        tuning = self.client.fine_tuning.get(tuning_id)
        self.out.line("(d) evaluations before and after, served by vLLM")
        tuned = tuning.fine_tuned_model or ""
        after_id = self.submit(evaluation_request(tuned, held_out), held_out)
        self.finish(before_id)
        self.finish(after_id)
        return Outcome(tuning, self._evaluation(before_id), self._evaluation(after_id))

    def _evaluation(self, job_id: str) -> Evaluation:
        evaluation = self.client.evaluations.get(job_id)
        if evaluation.metrics is None:
            raise DemoFailed(f"{job_id} has no metrics")
        return evaluation


def training_request(file: File) -> CreateFineTuningJob:
    """All weights, from scratch: a high learning rate that decays, and a few passes."""
    hyperparameters = SupervisedHyperparameters(
        n_epochs=3,
        batch_size=32,
        learning_rate=4e-3,
        warmup_ratio=0.05,
        training_type=TrainingType.FULL,
        max_seq_length=128,
    )
    return CreateFineTuningJob(
        model=BASE,
        training_file=file.id,
        suffix="addition",
        seed=1,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )


def evaluation_request(model: str, file: File) -> CreateEvaluation:
    """Greedy answers, right when their last number is the sum."""
    return CreateEvaluation(
        model=model, file=file.id, grader=NumericGrader(), sampling=Sampling(max_tokens=48)
    )
