"""Submitting a job: register its model, upload its data, create it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from services.contracts.jobs import JobRequest, JobState
from services.contracts.kinds import kind_of_request
from temper.submission.submission import LocalFile, Submission, SubmissionError

if TYPE_CHECKING:
    from temper.client import Temper
    from temper.client.files import Progress


@dataclass(frozen=True)
class Reporting:
    """Progress callbacks of `submit`: a line of text, and a progress bar around an upload."""

    note: Callable[[str], None]
    transfer: Callable[[str], AbstractContextManager[Progress | None]]


def submit(client: Temper, submission: Submission, report: Reporting) -> JobState:
    """Register the model if needed, upload the files the gateway does not have, create the job."""
    for note in submission.notes:
        report.note(note)
    request = submission.request
    if submission.hub_model is not None:
        ensure_model(client, submission.hub_model, report)
    ids = {file.field: stored(client, file, report) for file in submission.files}
    kind = kind_of_request(request).name
    created = client.of_kind(kind).create(request.with_file_references(ids))
    return created if isinstance(created, JobState) else client.jobs.get(created.id)


def is_checked(request: JobRequest) -> bool:
    """Whether the data of a request can be checked: they are trained on, rather than prompts."""
    if kind_of_request(request).dry_run is None:
        return False
    from services.contracts.training.fine_tuning import CreateFineTuningJob

    method = request.method if isinstance(request, CreateFineTuningJob) else None
    return method is None or method.online is None


def checks_of(submission: Submission) -> Iterator[Submission]:
    """Yield the checks of a fine-tuning job's training files, each by its method and model.

    Raises `SubmissionError` for data that cannot be checked.
    """
    from services.contracts.training.checks import CreateCheck
    from services.contracts.training.fine_tuning import CreateFineTuningJob

    request = submission.request
    if not isinstance(request, CreateFineTuningJob) or not is_checked(request):
        raise SubmissionError("only the data of offline fine-tuning are checked")
    local = {file.field: file for file in submission.files}
    for field, reference in request.file_references.items():
        if not field.startswith("training_file"):
            continue
        check = CreateCheck(training_file=reference, model=request.model, method=request.method)
        files = (replace(local[field], field="training_file"),) if field in local else ()
        yield Submission(check, files, hub_model=submission.hub_model)


def ensure_model(client: Temper, name: str, report: Reporting) -> None:
    """Register a hub model under its hub name, unless that name is registered already."""
    if client.models.find(name) is not None:
        return
    from pydantic import TypeAdapter, ValidationError

    from services.contracts.models.registered import HubName, RegisterModel

    try:
        TypeAdapter(HubName).validate_python(name)
    except ValidationError:
        is_of_hub = False
    else:
        is_of_hub = not Path(name).exists()
    if not is_of_hub:
        raise SubmissionError(
            f"model {name!r} is not registered: put its folder below the model root and run "
            "temper models register"
        )
    client.models.register(RegisterModel(id=name, hub_id=name))
    report.note(f"registered {name} from the hub")


def stored(client: Temper, file: LocalFile, report: Reporting) -> str:
    """Return the id of the uploaded file; skip the upload if the gateway has the file."""
    known = client.files.same_content(file.path, file.purpose)
    if known is not None:
        report.note(f"{file.path.name} is already uploaded as {known.id}")
        return known.id
    with report.transfer(f"uploading {file.path.name}") as progress:
        uploaded = client.files.upload(file.path, file.purpose, progress)
    report.note(f"uploaded {file.path.name} as {uploaded.id}")
    return uploaded.id
