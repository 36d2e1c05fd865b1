"""What lists show of jobs: subject, main number, notes, times, and which job waits for which."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from services.api.evaluations.service import evaluation_view
from services.api.jobs.view import job_view
from services.api.notes.service import count_job_notes
from services.contracts.evaluation.evaluations import Evaluation
from services.contracts.jobs import Job as JobView
from services.contracts.jobs import JobKind, JobReference, JobStatus, MainNumber
from services.core.db.tables import EventRow
from services.jobs.attempts import run_seconds
from services.jobs.contention import jobs_in_the_way
from services.jobs.job import Job
from services.jobs.names import data_names, file_names, name_of, subject_of

MOST_POINTS = 40
MOST_IN_THE_WAY = 5
_METRICS = ("reward", "loss", "accuracy")
"""Metrics that can be a job's main number; the first that it reports is."""
JUDGED_STEPS = 20
"""Latest steps that tell whether a training learns anything, as on the job's page."""
_ZERO_WITHOUT_LEARNING = ("advantage_std", "grad_norm")
_MODELS = ("fine_tuned_model", "merged_model", "best_model")

_MOST_KNOWN = 10_000
_known: dict[str, tuple[tuple[int, JobStatus], MainNumber | None]] = {}
"""By job, as of its number of events and its status."""


def job_views(session: Session, jobs: Sequence[Job]) -> list[JobView]:
    """Jobs as /v1/jobs shows them."""
    ids = [job.id for job in jobs]
    notes, seconds = count_job_notes(session, ids), run_seconds(session, ids)
    subjects = {job.id: subject_of(job.kind, job.request) for job in jobs}
    names = file_names(session, {file for each in subjects.values() for file in each.data})
    in_the_way = jobs_in_the_way(session, jobs, MOST_IN_THE_WAY)
    return [
        job_view(job, notes.get(job.id, 0), seconds.get(job.id)).model_copy(
            update={
                "model": subjects[job.id].model,
                "method": subjects[job.id].method,
                "data": data_names(subjects[job.id], names),
                "output_model": _output_model(job),
                "main_number": main_number(session, job),
                "waits_for": [
                    JobReference(
                        id=each.id,
                        name=name_of(each),
                        kind=each.kind,
                        eta_seconds=each.eta_seconds,
                    )
                    for each in in_the_way.get(job.id, ())
                ],
            }
        )
        for job in jobs
    ]


def _output_model(job: Job) -> str | None:
    result = job.result or {}
    return next((result[name] for name in _MODELS if result.get(name)), None)


def main_number(session: Session, job: Job) -> MainNumber | None:
    """The number that tells most about a job; None before it reports one."""
    version = (job.event_count, job.status)
    known = _known.get(job.id)
    if known is not None and known[0] == version:
        return known[1]
    found = _measured(job) or _reported(session, job)
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[job.id] = (version, found)
    return found


def _measured(job: Job) -> MainNumber | None:
    """The result of an evaluation or rollout, with its interval."""
    if job.result is None:
        return None
    if job.kind == JobKind.EVALUATION:
        return _of_evaluation(evaluation_view(job))
    statistics = job.result.get("statistics") or {}
    if job.kind == JobKind.ROLLOUT and (reward := statistics.get("reward")):
        return MainNumber(name="reward", value=reward["mean"], ci95=reward["ci95"])
    return None


def _of_evaluation(found: Evaluation) -> MainNumber | None:
    mean = None if found.macro_average is None else found.macro_average.mean
    if mean is not None:
        return MainNumber(name="mean over benchmarks", value=mean.mean, ci95=mean.ci95, share=True)
    main = next((each.main_metric for each in found.outcomes() if each.main_metric), None)
    if main is None or main.mean is None:
        return None
    return MainNumber(
        name=main.name,
        value=main.mean,
        direction=main.direction,
        ci95=main.ci95,
        share=main.share,
    )


def _reported(session: Session, job: Job) -> MainNumber | None:
    """The main metric of a job's events, read at evenly spaced ones of many."""
    reports = select(EventRow.data).where(EventRow.job_id == job.id, EventRow.type == "metrics")
    latest = session.scalars(reports.order_by(EventRow.number.desc()).limit(MOST_POINTS)).all()
    name = next((name for name in _METRICS if any(name in (data or {}) for data in latest)), None)
    if name is None:
        return None
    spread: Sequence[dict[str, Any] | None] = latest[::-1]
    if len(latest) == MOST_POINTS:
        spread = _spread(session, job, reports)
    finite = _values(latest, name) or _values(spread, name)[::-1]
    if not finite:
        return None
    return MainNumber(
        name=name,
        value=finite[0],
        not_finite=_latest(latest, name) is None,
        direction="minimize" if name == "loss" else "maximize",
        share=name == "accuracy",
        recent=_values(spread, name),
        nothing_learned=_learned_nothing(latest[:JUDGED_STEPS]),
    )


def _spread(
    session: Session, job: Job, reports: Select[tuple[dict[str, Any] | None]]
) -> Sequence[dict[str, Any] | None]:
    """The metrics at evenly spaced events; where few of these are metrics or still stored, the
    ones before them."""
    spaced = [job.event_count * place // MOST_POINTS for place in range(1, MOST_POINTS + 1)]
    ordered = reports.order_by(EventRow.number)
    spread = session.scalars(ordered.where(EventRow.number.in_(spaced))).all()
    if 2 * len(spread) > MOST_POINTS:
        return spread
    numbers = reports.with_only_columns(EventRow.number).order_by(EventRow.number.desc())
    nearest = [numbers.where(EventRow.number <= each).limit(1) for each in spaced]
    at = EventRow.number.in_([each.scalar_subquery() for each in nearest])
    return session.scalars(ordered.where(at)).all()


def _learned_nothing(reports: Sequence[Mapping[str, Any] | None]) -> bool:
    """Whether in at least half of these steps nothing could be learned."""
    of_steps = (_values(reports, name) for name in _ZERO_WITHOUT_LEARNING)
    return any(values and 2 * values.count(0) >= len(values) for values in of_steps)


def _latest(reports: Sequence[Mapping[str, Any] | None], name: str) -> Any:
    """The value in the first report that has the metric; null where it was not finite."""
    return next((data[name] for data in reports if data is not None and name in data), None)


def _values(reports: Sequence[Mapping[str, Any] | None], name: str) -> list[float]:
    return [data[name] for data in reports if data is not None and data.get(name) is not None]
