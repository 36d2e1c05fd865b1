"""Job files: Temper's own, and LLaMA-Factory's training files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from services.contracts.data.files import FilePurpose
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.jobs import JobRequest
from services.contracts.kinds import KINDS, JobKind, kind_of, kind_of_request
from services.contracts.rollouts.multi_turn import conversation_warnings
from services.contracts.rollouts.rollouts import CreateRollout
from services.contracts.training.dataset_scripts import SCRIPT_PREFIX
from services.contracts.training.fine_tuning import HUB_DATASET_PREFIX, CreateFineTuningJob
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.yaml_text import parse_yaml
from temper.formats.published_runs import is_published
from temper.submission.hub import fetch_hub_file
from temper.submission.llamafactory import read_llamafactory
from temper.submission.published import with_published, with_published_training
from temper.submission.submission import (
    LocalFile,
    Submission,
    SubmissionError,
    user_path,
)

MAX_BYTES = 1 << 20
FILE_ID_PREFIX = "file-"


def read_job_file(path: Path, scratch: Path) -> Submission:
    """Return the job that a YAML or JSON file describes.

    A file with ``kind``, one of `submitted_kinds`, holds the fields of the request; one with
    ``model_name_or_path`` is LLaMA-Factory's. Prepared data go to ``scratch``, which must exist
    until they are uploaded. Raises `SubmissionError`.
    """
    text = _read(path)
    content = _parse(path, text)
    if "kind" in content:
        return _own(path, content)
    if "model_name_or_path" in content:
        return read_llamafactory(path, text, scratch)
    if is_published(content):
        raise SubmissionError(
            f"{path}: a published run file names neither your model nor your data: add kind: "
            "rollout, model and file to it, or reference it as published in a job file"
        )
    raise SubmissionError(
        f"{path}: neither a Temper job file (kind: {', '.join(submitted_kinds())}) nor a "
        "LLaMA-Factory training file (model_name_or_path)"
    )


def submitted_kinds() -> list[str]:
    """The kinds of job that a job file can describe."""
    return [kind.name for kind in KINDS.values() if kind.purpose is not None]


def read_evaluation_file(path: Path, given: Mapping[str, Any]) -> Submission:
    """Return the evaluation that a job file describes; ``given`` overrides its fields.

    Settings of ``sampling`` are overridden one by one, and ``kind`` may be left out. Raises
    `SubmissionError`.
    """
    own = {"kind": JobKind.EVALUATION.value, **_parse(path, _read(path))}
    if own["kind"] != JobKind.EVALUATION:
        raise SubmissionError(f"{path}: kind is {own['kind']!r}, not evaluation")
    body = {**own, **given}
    if isinstance(sampling := own.get("sampling"), Mapping):
        body["sampling"] = {**sampling, **given.get("sampling", {})}
    return _own(path, body)


def read_request(kind: str, body: Mapping[str, Any], place: str) -> JobRequest:
    """Return the request of ``kind`` with these fields.

    Raises `SubmissionError` with ``place`` and the invalid field.
    """
    try:
        request: JobRequest = kind_of(kind).request.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        where = f"{place}: {field}" if field else place
        raise SubmissionError(f"{where}: {fault['msg']}") from error
    return request


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise SubmissionError(f"{path}: a job file has at most {MAX_BYTES} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path}: not UTF-8 text: {error}") from error


def _parse(path: Path, text: str) -> Mapping[str, Any]:
    try:
        content = parse_yaml(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise SubmissionError(f"{path}: not YAML or JSON: {error}") from error
    if not isinstance(content, dict):
        raise SubmissionError(f"{path}: not a mapping of names to values")
    return content


def _own(path: Path, content: Mapping[str, Any]) -> Submission:
    kind = str(content["kind"])
    if kind not in (known := submitted_kinds()):
        raise SubmissionError(f"{path}: kind is {kind!r}, not one of {', '.join(known)}")
    body = {name: value for name, value in content.items() if name != "kind"}
    notes: tuple[str, ...] = ()
    if kind == JobKind.ROLLOUT:
        body = with_published(path, body)
    elif kind == JobKind.FINE_TUNING:
        body, notes = with_published_training(path, body)
    request = read_request(kind, body, str(path))
    if isinstance(request, CreateFineTuningJob):
        _check_llamafactory(request, path)
    return Submission(request, tuple(_local_files(request, path)), (*notes, *_warnings(request)))


def _warnings(request: JobRequest) -> list[str]:
    if isinstance(request, CreateRollout):
        return conversation_warnings(request.multi_turn, request.tools, request.prompt_type)
    if isinstance(request, CreateFineTuningJob) and request.method and request.method.online:
        settings = request.method.online.hyperparameters
        return conversation_warnings(settings.multi_turn, settings.tools, settings.prompt_type)
    return []


def _check_llamafactory(request: CreateFineTuningJob, job_file: Path) -> None:
    """Reject what the gateway would reject, before uploading anything."""
    places: dict[str, OfflineHyperparameters | None] = {"hyperparameters": request.hyperparameters}
    if request.method is not None:
        name = f"method.{request.method.type.value}.hyperparameters"
        places[name] = request.method.offline
    for place, hyperparameters in places.items():
        if hyperparameters is None:
            continue
        try:
            hyperparameters.check_library_arguments(
                has_validation=request.has_validation,
                validation_names=request.validation_files or (),
            )
        except InvalidRequest as error:
            field = f"{place}.{error.param}"
            raise SubmissionError(f"{job_file}: {field}: {error.message}") from error


def _local_files(request: JobRequest, job_file: Path) -> Iterator[LocalFile]:
    purpose = FilePurpose(str(kind_of_request(request).purpose))
    for field, reference in request.file_references.items():
        if isinstance(request, CreateEvaluation) and reference.startswith(HUB_DATASET_PREFIX):
            yield LocalFile(field, fetch_hub_file(reference), purpose)
            continue
        if reference.startswith((FILE_ID_PREFIX, HUB_DATASET_PREFIX, SCRIPT_PREFIX)):
            continue
        path = job_file.parent / user_path(reference)
        if not path.is_file():
            raise SubmissionError(
                f"{job_file}: {field}: {reference!r} is not a file id, and {path} does not exist"
            )
        yield LocalFile(field, path, purpose)
