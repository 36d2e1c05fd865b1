"""Jobs as rows and fields for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.contracts.jobs import JobStatus
from temper.cli.jobs.kind_fields import own_fields
from temper.cli.units import age, duration, number, size

if TYPE_CHECKING:
    from rich.text import Text

    from services.contracts.jobs import DownloadProgress, Job, JobState, MainNumber, Progress


STATUS_STYLES = {
    JobStatus.RUNNING: "cyan",
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "yellow",
}


def status_text(job: JobState) -> Text:
    """Return a job's status, marked while a cancellation or a pause is pending."""
    from rich.text import Text

    pending = ""
    if job.cancel_requested_at is not None and not job.status.is_final:
        pending = " (cancelling)"
    elif job.pause_requested_at is not None:
        pending = " (pausing)"
    return Text(f"{job.status.value}{pending}", style=STATUS_STYLES.get(job.status, ""))


def progress_text(progress: Progress | None) -> str:
    """Return a job's progress and estimated time left."""
    if progress is None:
        return ""
    left = "" if progress.eta_seconds is None else f", {duration(progress.eta_seconds)} left"
    return f"{progress.step}/{progress.total_steps} ({progress.percent:.0f} %{left})"


def download_text(found: DownloadProgress | None) -> str:
    """Return how many bytes of a hub model are here, at what rate, and the time left."""
    if found is None:
        return ""
    text = f"{size(found.bytes)} of {size(found.total_bytes)}"
    if found.bytes_per_second is not None:
        text += f", {size(round(found.bytes_per_second))}/s"
    return text if found.eta_seconds is None else f"{text}, {duration(found.eta_seconds)} left"


def reason(job: JobState) -> str:
    """Return why a job waits or failed, or its current phase."""
    if job.error is not None:
        return job.error.message
    if job.status.is_final:
        return ""
    return f"{job.queue_reason or job.phase or ''}"


def took(job: JobState) -> str:
    """Return a job's run time so far, or in total; without pauses where it is known."""
    from services.contracts.jobs import Job

    if isinstance(job, Job) and job.run_seconds is not None:
        return duration(job.run_seconds)
    if job.started_at is None or (job.status.is_final and job.finished_at is None):
        return ""
    if job.status is JobStatus.PAUSED:
        return ""  # its clock has stopped, nobody knows when
    if job.finished_at is None:
        return age(job.started_at).removesuffix(" ago")
    return duration(job.finished_at - job.started_at)


def job_row(job: Job) -> tuple[str | Text, ...]:
    """Return a job's table cells."""
    step = ""
    if not job.status.is_final:
        step = download_text(job.download) or progress_text(job.progress)
    state = (job.kind, status_text(job), step, main_number_text(job.main_number))
    return (job.name, *state, took(job), age(job.created_at), job.id, waits_text(job))


JOB_COLUMNS = ("NAME", "KIND", "STATUS", "PROGRESS", "RESULT", "TOOK", "CREATED", "ID", "WHY")


def main_number_text(found: MainNumber | None) -> str:
    """Return a job's main number with its interval, if it has one."""
    if found is None:
        return ""
    ends = "" if found.ci95 is None else f" ({number(found.ci95[0])} to {number(found.ci95[1])})"
    doubt = ", nothing learned" if found.nothing_learned else ""
    value = "not finite" if found.not_finite else number(found.value)
    return f"{found.name} {value}{ends}{doubt}"


def waits_text(job: Job) -> str:
    """Return why a job waits or failed, and for which jobs."""
    held = _held_by(job)
    return f"{reason(job)}; {held}" if held else reason(job)


def _held_by(job: Job) -> str:
    """The jobs that hold what a job waits for, and when they should end."""
    others = []
    for each in job.waits_for:
        left = f", {duration(each.eta_seconds)} left" if each.eta_seconds else ""
        others.append(f"{each.name} ({each.id}{left})")
    return f"held by {', '.join(others)}" if others else ""


def job_fields(job: JobState, listed: Job | None = None) -> dict[str, str | None]:
    """Return a job's fields for display; ``listed``, the same job as the list of all kinds has it,
    adds what only that knows."""
    known = listed or job
    shared: dict[str, str | None] = {
        "name": job.name or None,
        "id": job.id,
        "status": status_text(job).plain,
        "why": (waits_text(listed) if listed else reason(job)) if job.error is None else None,
        "error": f"{job.error.message} ({job.error.code})" if job.error else None,
        "hint": job.error.hint if job.error else None,
        "progress": progress_text(job.progress) or None,
        "download": download_text(job.download) or None,
        "created": age(job.created_at),
        "took": took(known) or None,
        "attempts": str(job.attempt) if job.attempt > 1 else None,
    }
    labels = " ".join(f"{key}={value}" for key, value in (job.metadata or {}).items())
    return {**shared, **own_fields(job), "metadata": labels or None}
