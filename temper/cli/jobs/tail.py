"""``temper tail``: the end of a job's process log, and what follows while the job runs."""

from __future__ import annotations

import codecs
import re
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.jobs.follow import detachable
from temper.cli.jobs.jobs import Follow, JobId
from temper.cli.jobs.trajectory_text import escaped
from temper.cli.output import Output
from temper.client.errors import ApiError, Unreachable
from temper.client.process_log import MOST_BYTES

if TYPE_CHECKING:
    from services.contracts.jobs import JobStatus
    from temper.client.process_log import ProcessLog

LineLimit = Annotated[
    int,
    typer.Option(
        "-n",
        min=1,
        max=10_000,
        help=f"Start with this many of the latest lines, up to {MOST_BYTES >> 10} KiB.",
    ),
]
POLL_SECONDS = 1.0
GIVE_UP_SECONDS = 120.0
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def tail(job_id: JobId, follow: Follow = False, most: LineLimit = 200) -> None:
    """Print the end of a job's process log. With --follow, Ctrl-C detaches; the job keeps
    running."""
    out = Output(as_json=False)
    with connect() as client:
        log = client.jobs.log(job_id)
        lines = LogLines(log)
        latest = deque(lines.finished() or [], maxlen=most)
        if not follow:
            latest.extend(lines.unfinished())
        for line in latest:
            out.line(line)
        if not follow:
            if not latest:
                out.note("nothing has been logged yet")
            return
        with detachable(out, job_id, "tail"):
            status = _follow(lines, lambda: client.jobs.get(job_id).status, out)
    raise typer.Exit(of_job(status))


def _follow(lines: LogLines, status_of: Callable[[], JobStatus], out: Output) -> JobStatus:
    """Print lines as they arrive until the job has ended; return its final status.

    Tolerates up to `GIVE_UP_SECONDS` without a gateway.
    """
    from temper.client.transport import RETRIED_STATUSES

    last_contact = time.monotonic()
    while True:
        try:
            status = status_of()
            while (finished := lines.finished()) is not None:
                for line in finished:
                    out.line(line)
        except (Unreachable, ApiError) as error:
            is_transient = isinstance(error, Unreachable) or error.status in RETRIED_STATUSES
            if not is_transient or time.monotonic() - last_contact > GIVE_UP_SECONDS:
                raise
        else:
            last_contact = time.monotonic()
            if status.is_final:
                for line in lines.unfinished():
                    out.line(line)
                return status
        time.sleep(POLL_SECONDS)


class LogLines:
    """The lines of a log as a terminal would show them: without colors and other control
    characters, and progress bars in their latest state."""

    def __init__(self, log: ProcessLog) -> None:
        self._log = log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""

    def finished(self) -> list[str] | None:
        """Return newly completed lines; None if nothing was logged since the last call."""
        content = self._log.read()
        if not content:
            return None
        if self._log.is_new:
            self._decoder.reset()
            self._unfinished = ""
        text = self._decoder.decode(content)
        if self._log.is_cut:
            text = text[text.find("\n") + 1 :]
        *lines, unfinished = (self._unfinished + text).split("\n")
        # A progress bar may never end its line.
        self._unfinished = unfinished[-MOST_BYTES:]
        return [_visible(line) for line in lines]

    def unfinished(self) -> list[str]:
        """Return the last line if it is incomplete."""
        last, self._unfinished = self._unfinished, ""
        return [_visible(last)] if last else []


def _visible(line: str) -> str:
    states = _TERMINAL_SEQUENCE.sub("", line).split("\r")
    return escaped(next((state for state in reversed(states) if state), ""))
