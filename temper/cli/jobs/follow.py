"""Following a job live: its events, and a progress bar on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from temper.cli.exit_codes import ExitCode
from temper.cli.jobs.event_text import event_line, metrics_text
from temper.cli.jobs.job_view import download_text
from temper.cli.output import Output
from temper.cli.units import duration

if TYPE_CHECKING:
    from services.contracts.jobs import Event, Job, JobState
    from temper.client import Temper

POLL_SECONDS = 1.0
STATUS_SECONDS = 60.0
"""Time limit for the final status, which may appear shortly after the end of the stream."""


@contextmanager
def detachable(out: Output, job_id: str, command: str = "logs") -> Iterator[None]:
    """On Ctrl-C, leave the job running and print how to reattach with a command."""
    try:
        yield
    except KeyboardInterrupt:
        out.note(f"\ndetached: {job_id} keeps running")
        out.note(f"  reattach  temper {command} -f {job_id}")
        out.note(f"  cancel    temper cancel {job_id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


class Follower:
    """Shows jobs until they end."""

    def __init__(self, client: Temper, out: Output) -> None:
        self._client = client
        self._out = out

    def follow(self, job_id: str, recent: int | None = None) -> Job:
        """Show a job's events until it ends, then return it.

        ``recent`` limits how many past events are shown; None shows all.
        """
        first = self._start(job_id, recent)
        if self._out.is_live:
            self._draw(job_id, first)
        else:
            self._print(job_id, first)
        return self._client.jobs.wait(job_id, timeout=STATUS_SECONDS)

    def _start(self, job_id: str, recent: int | None) -> str | None:
        """Return the id of the event to start after, or None to start at the first."""
        if recent is None:
            return None
        page = self._client.jobs.events(job_id, most=recent + 1)
        return page.data[recent].id if len(page.data) > recent else None

    def _print(self, job_id: str, after: str | None) -> None:
        for event in self._client.jobs.follow(job_id, after=after):
            if self._out.as_json:
                self._out.json_line(event)
            else:
                self._out.results.print(event_line(event))

    def _draw(self, job_id: str, after: str | None) -> None:
        with JobBar(self._client, self._out, job_id) as bar:
            for event in self._client.jobs.follow(job_id, after=after):
                bar.show(event)


class JobBar:
    """One job's progress bar below its messages.

    Metrics arrive as events; progress is polled every second.
    """

    def __init__(self, client: Temper, out: Output, job_id: str) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn

        self._client = client
        self._out = out
        self._job_id = job_id
        self._ended = threading.Event()
        self._poller = threading.Thread(target=self._poll, daemon=True)
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[left]}"),
            expand=True,
            console=out.results,
        )
        self._metrics = Progress(TextColumn("{task.description}", style="dim"), console=out.results)
        self._task = self._bar.add_task("waiting", total=None, count="", left="")
        self._line = self._metrics.add_task("")
        self._live = Live(
            Group(self._bar, self._metrics),
            console=out.results,
            refresh_per_second=8,
            transient=True,
        )

    def __enter__(self) -> JobBar:
        self._live.start()
        self._poller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._live.stop()
        self._poller.join(POLL_SECONDS)

    def show(self, event: Event) -> None:
        """Show one event: metrics in the bar, messages above it."""
        if event.type == "metrics":
            self._metrics.update(self._line, description=metrics_text(event))
        else:
            self._live.console.print(event_line(event))

    def _poll(self) -> None:
        from temper.client import ClientError

        while True:
            # The event stream, in the main thread, decides when to give up.
            with suppress(ClientError):
                self._update(self._client.jobs.get(self._job_id))
            if self._ended.wait(POLL_SECONDS):
                return

    def _update(self, job: JobState) -> None:
        state = job.queue_reason or job.phase or job.status.value
        if job.download is not None:
            self._bar.update(
                self._task,
                description=state,
                completed=job.download.bytes,
                total=job.download.total_bytes,
                count=download_text(job.download),
                left="",
            )
            return
        if job.progress is None:
            self._bar.update(self._task, description=state)
            return
        eta = job.progress.eta_seconds
        self._bar.update(
            self._task,
            description=state,
            completed=job.progress.step,
            total=job.progress.total_steps,
            count=f"{job.progress.step}/{job.progress.total_steps}",
            left="" if eta is None else f"{duration(eta)} left",
        )
