"""The processes of a job's trackers, supervised by its worker."""

import json
import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from services.contracts.errors import TemperError
from services.core.db.engine import DATABASE_AWAY, Database
from services.core.process.reporter import REPORTS
from services.core.process.runtimes import child_environment
from services.core.process.supervised import SupervisedProcess
from services.jobs.claims import Claim, check_claim
from services.jobs.events import Draft, append_events
from services.jobs.tracking.child import END, FAILURE, POSITION, SPEC
from services.jobs.tracking.selection import TrackerSelection, TrackerSpec
from services.jobs.tracking.tracker import End
from services.jobs.worker.reports import bound_log

logger = logging.getLogger(__name__)

CHILD = "services.jobs.tracking.child"
FOLDER = ".tracking"
"""In the job's folder: one folder per tracker. Its name hides it from clients."""
RESTART_SECONDS = 60.0
"""Delay before a failed tracker is restarted, for as long as the job runs."""
STOP_SECONDS = 5.0
"""Time a tracker gets to flush its buffer when the run is interrupted, and again after SIGTERM."""
POLL_SECONDS = 0.05
MAX_WARNINGS = 10
"""Per tracker and claim."""
STALL_SECONDS = 300.0
"""A tracker that makes no progress for this long while reports are pending hangs."""


class JobTrackers:
    """All trackers of one claim. A failing tracker never raises here, and only `finish` and `stop`
    wait for one: `stop` twice `STOP_SECONDS` at most.

    ``tree`` is the process tree of the claim: killing that kills the trackers. ``notes`` is the
    folder with a note per running tree.
    """

    def __init__(self, job_dir: Path, tree: str, notes: Path | None = None) -> None:
        self._notes = notes
        self._job_dir = job_dir
        self._tree = tree
        self._trackers: list[TrackerProcess] = []
        self._missing: list[str] = []
        self._deadline = 0.0

    def start(self, selection: TrackerSelection, deadline: float) -> None:
        """Start them, to run until ``deadline`` on the `lease_clock`."""
        self._missing = list(selection.warnings)
        self._trackers = [
            TrackerProcess(spec, self._job_dir, f"{self._tree}/{spec.name}", self._notes)
            for spec in selection.specs
        ]
        self.renew(deadline)
        for each in self._trackers:
            each.start(deadline)

    def renew(self, deadline: float) -> None:
        """Extend the deadline."""
        self._deadline = deadline
        for each in self._trackers:
            each.renew(deadline)

    def check(self) -> None:
        """Detect failed and hanging trackers, and restart those whose delay is over."""
        for each in self._trackers:
            each.check(self._deadline)

    def finish(self, state: End, seconds: float, renew_lease: Callable[[], object]) -> None:
        """Notify them how the run ended, and stop those that have not exited after ``seconds``.

        ``renew_lease`` is called while waiting; it may raise `LeaseLost`.
        """
        for each in self._trackers:
            each.finish(state)
        give_up = time.monotonic() + seconds
        while not self.finished and time.monotonic() < give_up:
            time.sleep(POLL_SECONDS)
            with suppress(*DATABASE_AWAY):  # the lease has time left, or its loss is noticed later
                renew_lease()
        self.stop()

    @property
    def finished(self) -> bool:
        """Whether none runs."""
        return all(each.poll() for each in self._trackers)

    def stop(self) -> None:
        """Stop those that still run; the next attempt continues them."""
        interrupted = [each for each in self._trackers if each.interrupt()]
        if interrupted:
            give_up = time.monotonic() + STOP_SECONDS
            while not self.finished and time.monotonic() < give_up:
                time.sleep(POLL_SECONDS)
        for each in self._trackers:
            each.end()
        for each in self._trackers:
            each.wait()

    @property
    def warnings(self) -> list[str]:
        """Failures that are not yet recorded, each reason of a tracker once."""
        return [*self._missing, *(text for each in self._trackers for text in each.warnings)]

    def record_warnings(self, database: Database, claim: Claim) -> None:
        """Move the `warnings` to the job's events. Raises `LeaseLost`."""
        drafts = [Draft(text, level="warn") for text in self.warnings]
        if not drafts:
            return
        with database.write() as session:
            check_claim(session, claim)
            append_events(session, claim.job.id, drafts)
        self._missing.clear()
        for each in self._trackers:
            each.warnings.clear()


class TrackerProcess:
    """The supervised process of one tracker."""

    def __init__(
        self, spec: TrackerSpec, job_dir: Path, tree: str, notes: Path | None = None
    ) -> None:
        self._notes = notes
        self._spec = spec
        self._tree = tree
        self._reports = job_dir / REPORTS
        self._folder = job_dir / FOLDER / spec.name
        self._process: SupervisedProcess | None = None
        self._restart_at: float | None = None
        self._run_end: End | None = None
        self._stopping = False
        self._last_progress = (-1, time.monotonic())
        self.warnings: list[str] = []
        self._warned: set[str] = set()

    def start(self, deadline: float) -> None:
        """Start the process."""
        self._restart_at = None
        self._last_progress = (-1, time.monotonic())
        try:
            self._prepare()
            self._process = SupervisedProcess.start(
                [str(self._spec.python), "-m", CHILD, str(self._folder), self._spec.target],
                cwd=self._spec.data,
                env=child_environment({**self._spec.environment, "CUDA_VISIBLE_DEVICES": ""}),
                log=self._folder / "log.txt",
                tree=self._tree,
                deadline=deadline,
                grace_seconds=STOP_SECONDS,
                notes=self._notes,
            )
        except (OSError, TemperError) as error:
            self._fail(f"could not be started: {error}")

    def renew(self, deadline: float) -> None:
        """Extend the deadline."""
        if self._process is not None:
            self._process.renew(deadline)

    def check(self, deadline: float) -> None:
        """Detect a failure or a hang; restart after a delay."""
        if self._restart_at is not None and time.monotonic() >= self._restart_at:
            self.start(deadline)
        elif not self.poll() and self._hangs():
            self._warn(f"has not answered for {STALL_SECONDS:.0f} s and is started again")
            self.end()

    def poll(self) -> bool:
        """Whether it is not running."""
        if self._process is None or not self._process.wait(0.0):
            return self._process is None
        process, self._process = self._process, None
        if self._stopping or (self._run_end is not None and process.returncode == 0):
            self._restart_at = None if self._run_end else time.monotonic() + RESTART_SECONDS
        else:
            self._fail(f"failed: {self._reason(process)}")
        self._stopping = False
        return True

    def finish(self, state: End) -> None:
        """Notify it how the run ended. One that is not running now misses the end."""
        self._run_end, self._restart_at = state, None
        if self._process is not None and not self._stopping:
            try:
                _write(self._folder / END, state)
            except OSError as error:
                self._warn(f"cannot be told of the end: {error}")

    def interrupt(self) -> bool:
        """Notify it that the run continues later; false if it was notified of an end before."""
        if self._process is None or self._run_end is not None:
            return False
        self.finish(End.INTERRUPTED)
        return True

    def end(self) -> None:
        """Stop its processes: TERM, time to flush its buffer, KILL."""
        if self._process is None or self._stopping:
            return
        if self._run_end is not None:
            self._warn("did not finish in time and was stopped")
        self._stopping = True
        self._process.end()

    def wait(self) -> None:
        """Wait until its processes have exited; the watchdog kills them after the grace period."""
        while not self.poll():
            time.sleep(POLL_SECONDS)
        self._restart_at = None

    def _prepare(self) -> None:
        self._spec.data.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in (END, FAILURE):
            (self._folder / name).unlink(missing_ok=True)
        bound_log(self._folder / "log.txt")
        run = {"run": asdict(self._spec.run), "config": self._spec.config}
        _write(self._folder / SPEC, json.dumps(run))

    def _hangs(self) -> bool:
        """Whether reports are pending while its position has not advanced for `STALL_SECONDS`."""
        try:
            pending = self._reports.stat().st_size
            delivered = int(json.loads((self._folder / POSITION).read_bytes())["reports"])
        except FileNotFoundError:
            pending, delivered = 1, 0  # it has not started
        except (OSError, ValueError, KeyError):
            return False
        now = time.monotonic()
        if delivered >= pending or delivered != self._last_progress[0]:
            self._last_progress = (delivered, now)
        return now - self._last_progress[1] > STALL_SECONDS

    def _reason(self, process: SupervisedProcess) -> str:
        try:
            return (self._folder / FAILURE).read_text(errors="replace")
        except OSError:
            code = process.returncode or 0
            return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _fail(self, reason: str) -> None:
        self._warn(reason)
        self._restart_at = time.monotonic() + RESTART_SECONDS if self._run_end is None else None

    def _warn(self, what: str) -> None:
        """Add a warning; one that repeats after a restart is logged only."""
        warning = f"The tracker {self._spec.name} {what}"
        logger.warning("job %s: %s", self._spec.run.id, warning)
        if warning not in self._warned and len(self._warned) < MAX_WARNINGS:
            self._warned.add(warning)
            self.warnings.append(warning)


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
