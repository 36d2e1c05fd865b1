"""What a job is about, and its name: the given one, or one made of model, method and data."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.jobs import files_at
from services.contracts.kinds import KINDS, Kind
from services.core.db.tables import FileRow, JobRow
from services.jobs.job import Job, NewJob, job_from_row

MAX_NAME = 120
_NAME_IN_METADATA = "name"
_HUB_DATASET = "hf://datasets/"
_TUNED = re.compile(r"ft:(?P<base>.+):[^:]*:(?P<suffix>[^:]*):(?P<job>[^:]*)")
_SHOWN_FILES = 2
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class JobSubject:
    """What a job works on: its model, its method (of a fine-tune) or benchmark, and its data.

    ``data`` are file ids and names of hub datasets.
    """

    model: str | None
    method: str | None
    data: tuple[str, ...]


def subject_of(kind: str, request: Mapping[str, Any]) -> JobSubject:
    """The subject of a job of this kind with this request, as it is stored."""
    described = KINDS.get(kind)
    model = request.get("model") or request.get("base_model")
    if isinstance(model, Mapping):
        model = model.get("model")
    fields = () if described is None else described.request.FILE_FIELDS
    own = [each for each in fields if described is None or each not in described.side_files]
    files = dict.fromkeys(file for each in own for file in files_at(request, each))
    return JobSubject(model, _method(described, request), tuple(files))


def _method(kind: Kind | None, request: Mapping[str, Any]) -> str | None:
    if kind is not None and kind.default_method is not None:
        return str((request.get("method") or {}).get("type") or kind.default_method)
    benchmark = request.get("benchmark")
    if isinstance(benchmark, Mapping):
        benchmark = benchmark.get("name")
    return benchmark if isinstance(benchmark, str) else None


def new_name(session: Session, new: NewJob) -> str:
    """The name of a job that is created."""
    subject = subject_of(new.kind, new.request)
    return _name(new.kind, new.request, new.metadata, file_names(session, subject.data))


def name_of(job: Job) -> str:
    """The name of a job; made of file ids for jobs of earlier versions, which have none."""
    return job.name or _name(job.kind, job.request, job.metadata, {})


def job_names(session: Session, ids: Collection[str]) -> dict[str, str]:
    """The names of those of these jobs that exist, by id."""
    if not ids:
        return {}
    rows = session.scalars(select(JobRow).where(JobRow.id.in_(ids)))
    return {row.id: name_of(job_from_row(row)) for row in rows}


def file_names(session: Session, files: Collection[str]) -> dict[str, str]:
    """The names of those of these files that are uploads, by id."""
    if not files:
        return {}
    found = session.execute(select(FileRow.id, FileRow.filename).where(FileRow.id.in_(files)))
    return {row.id: row.filename for row in found}


def data_names(subject: JobSubject, names: Mapping[str, str]) -> list[str]:
    """The data of a job by name."""
    return [names.get(file, file.removeprefix(_HUB_DATASET)) for file in subject.data]


def _name(
    kind: str,
    request: Mapping[str, Any],
    metadata: Mapping[str, str] | None,
    names: Mapping[str, str],
) -> str:
    given = request.get("name") or (metadata or {}).get(_NAME_IN_METADATA) or request.get("suffix")
    name = str(given or _made(kind, request, names))[:MAX_NAME]
    # Names of files may hold anything, also what reorders the text of a terminal.
    return "".join(each if each.isprintable() else "\ufffd" for each in name)


def _made(kind: str, request: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The title of the kind, filled. A place that is none of these is a field of the request."""
    subject = subject_of(kind, request)
    data = data_names(subject, names)
    of_data = ", ".join(data[:_SHOWN_FILES]) + (" and more" if len(data) > _SHOWN_FILES else "")
    places = {
        "kind": kind.replace("_", " "),
        "model": short_model(subject.model) if subject.model else "model",
        "method": subject.method,
        "data": of_data,
        "task": subject.method or of_data or "inline prompts",
    }
    title = KINDS[kind].title if kind in KINDS else None
    if title is None:
        title = "{kind} of {model}" if subject.model else "{kind} of {data}" if data else "{kind}"
    return _PLACE.sub(lambda place: str(places.get(place[1]) or _field(request, place[1])), title)


def _field(request: Mapping[str, Any], name: str) -> str:
    return str(request.get(name) or name)


def short_model(model: str) -> str:
    """A model's name without its owner; of a fine-tuned one its suffix, if it has one."""
    if tuned := _TUNED.fullmatch(model):
        return tuned["suffix"] or f"{short_model(tuned['base'])} {tuned['job']}"
    return model.rpartition("/")[2]
