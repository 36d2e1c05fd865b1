"""Job files: Temper's own, and LLaMA-Factory's training files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from services.contracts.data.files import FilePurpose
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobRequest
from services.contracts.kinds import KINDS, JobKind, kind_of, kind_of_request
from services.contracts.training.rows import HUB_DATASET_PREFIX, SCRIPT_PREFIX
from services.parsing.yaml_text import parse_yaml
from temper.submission.assignments import parse_path
from temper.submission.draft import Draft
from temper.submission.submission import (
    LocalFile,
    Submission,
    SubmissionError,
    user_path,
)

if TYPE_CHECKING:
    from services.contracts.training.fine_tuning import CreateFineTuningJob

MAX_BYTES = 1 << 20
FILE_ID_PREFIX = "file-"


def read_job_file(path: Path, scratch: Path) -> Submission:
    """Return the job that a YAML or JSON file describes.

    A file with ``kind`` holds the fields of the request; one with ``model_name_or_path`` is
    LLaMA-Factory's. Prepared data go to ``scratch``, which must exist until they are uploaded.
    Raises `SubmissionError`.
    """
    text = _read(path)
    content = _parse(path, text)
    if "kind" in content:
        return submission_of(str(content["kind"]), _draft(path, text, content))
    if "model_name_or_path" in content:
        from temper.submission.llamafactory import read_llamafactory

        return read_llamafactory(path, text, scratch)
    from temper.formats.published_runs import is_published

    if is_published(content):
        raise SubmissionError(
            f"{path}: a published run file names neither your model nor your data: add kind: "
            "rollout, model and file to it, or reference it as published in a job file"
        )
    raise SubmissionError(
        f"{path}: neither a Temper job file (kind: {', '.join(KINDS)}) nor a "
        "LLaMA-Factory training file (model_name_or_path)"
    )


def read_draft(path: Path, kind: str) -> Draft:
    """Return the fields of a job file, which may leave out its kind.

    Raises `SubmissionError`, also if the file is of another kind.
    """
    text = _read(path)
    content = {"kind": kind, **_parse(path, text)}
    if content["kind"] != kind:
        raise SubmissionError(f"{path}: kind is {content['kind']!r}, not {kind}")
    return _draft(path, text, content)


def submission_of(kind: str, draft: Draft) -> Submission:
    """Return the job of a kind whose fields a draft has; raises `SubmissionError`."""
    described = kind_of(kind)
    known = None if described.is_posted else described.given_fields
    request = draft.request(described.request, known)
    if kind == JobKind.FINE_TUNING:
        _check_llamafactory(request, draft)
        _check_online(request, draft)
    files = tuple(_local_files(request, draft))
    return Submission(request, files, (*draft.notes, *_warnings(kind, request)))


def read_evaluation_file(path: Path, given: Mapping[str, Any]) -> Submission:
    """Return the evaluation that a job file describes; ``given`` overrides its fields.

    Settings of ``sampling`` are overridden one by one, and ``kind`` may be left out. Raises
    `SubmissionError`.
    """
    draft = read_draft(path, JobKind.EVALUATION)
    own = draft.body.get("sampling")
    draft.body |= given
    if isinstance(own, Mapping):
        draft.body["sampling"] = {**own, **given.get("sampling", {})}
    return submission_of(JobKind.EVALUATION, draft)


def read_request(kind: str, body: Mapping[str, Any], place: str) -> JobRequest:
    """Return the request of ``kind`` with these fields.

    Raises `SubmissionError` with ``place`` and the invalid field.
    """
    try:
        request: JobRequest = Draft(dict(body)).request(kind_of(kind).request)
    except SubmissionError as error:
        raise SubmissionError(f"{place}: {error.message}") from error
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


def _draft(path: Path, text: str, content: Mapping[str, Any]) -> Draft:
    kind = str(content["kind"])
    if kind not in KINDS:
        raise SubmissionError(f"{path}: kind is {kind!r}, not one of {', '.join(KINDS)}")
    body = {name: value for name, value in content.items() if name != "kind"}
    notes: tuple[str, ...] = ()
    if kind == JobKind.ROLLOUT:
        from temper.submission.published import with_published

        body = with_published(path, body)
    elif kind == JobKind.FINE_TUNING:
        from temper.submission.published import with_published_training

        body, notes = with_published_training(path, body)
    return Draft(body, path, text, notes)


def _warnings(kind: str, request: Any) -> list[str]:
    settings = None
    if kind == JobKind.ROLLOUT:
        settings = request
    elif kind == JobKind.FINE_TUNING and request.method and request.method.online:
        settings = request.method.online.hyperparameters
    if settings is None:
        return []
    from services.contracts.rollouts.multi_turn import conversation_warnings

    return conversation_warnings(settings.multi_turn, settings.tools, settings.prompt_type)


def _check_llamafactory(request: CreateFineTuningJob, draft: Draft) -> None:
    """Reject what the gateway would reject, before uploading anything."""
    places: list[tuple[tuple[str, ...], Any]] = [(("hyperparameters",), request.hyperparameters)]
    if request.method is not None:
        method = request.method
        places.append((("method", method.type.value, "hyperparameters"), method.offline))
    for place, hyperparameters in places:
        if hyperparameters is None:
            continue
        try:
            hyperparameters.check_library_arguments(
                has_validation=request.has_validation,
                validation_names=request.validation_files or (),
            )
        except InvalidRequest as error:
            raise draft.fault((*place, *str(error.param).split(".")), error.message) from error


def _check_online(request: CreateFineTuningJob, draft: Draft) -> None:
    """Reject settings without effect, as the gateway would."""
    method = request.method
    if method is None or method.online is None:
        return
    from services.contracts.training.effects import check_effects

    try:
        check_effects(method.online)
    except InvalidRequest as error:
        named = re.findall(r"[^.\[\]]+", str(error.param))
        parts = (int(part) if part.isdigit() else part for part in named)
        raise draft.fault(("method", method.type.value, *parts), error.message) from error


def _local_files(request: JobRequest, draft: Draft) -> Iterator[LocalFile]:
    kind = kind_of_request(request)
    for field, reference in request.file_references.items():
        location = parse_path(field)
        purpose = FilePurpose(str(kind.purpose_of(str(location[0]))))
        is_of_hub = reference.startswith(HUB_DATASET_PREFIX)
        if is_of_hub and kind.fetches_from_hub:
            from temper.submission.hub import fetch_hub_file

            yield LocalFile(field, fetch_hub_file(reference), purpose)
            continue
        if is_of_hub or reference.startswith((FILE_ID_PREFIX, SCRIPT_PREFIX)):
            continue
        path = draft.folder_of(location) / user_path(reference)
        if not path.is_file():
            raise draft.fault(
                location, f"{reference!r} is not a file id, and {path} does not exist"
            )
        yield LocalFile(field, path, purpose)
