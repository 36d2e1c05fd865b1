"""The processes of trackers, with a fake tracker and injected faults."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.core.process.reporter import Reporter
from services.core.process.supervised import lease_clock
from services.jobs.tracking.selection import TrackerSelection, TrackerSpec
from services.jobs.tracking.tracker import End, TrackedRun
from services.jobs.worker import trackers
from services.jobs.worker.trackers import JobTrackers
from tests.support.jobs.fake_tracker import TARGET, calls
from tests.support.waiting import wait_for

Start = Callable[..., JobTrackers]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a fake tracker of the job in ``tmp_path`` with a fault."""
    monkeypatch.setattr(trackers, "STOP_SECONDS", 60.0)
    started = []

    def start(fault: str | None = None) -> JobTrackers:
        if str(fault).startswith("hang"):
            monkeypatch.setattr(trackers, "STOP_SECONDS", 0.2)
        run = TrackedRun("job", "name", "fine_tuning", str(tmp_path), project=fault)
        environment = {"FAKE_API_KEY": "sesame-1234"}
        spec = TrackerSpec(
            "fake", Path(sys.executable), TARGET, run, {}, tmp_path / "data", environment
        )
        job = JobTrackers(tmp_path, f"job-{tmp_path.name}:1")
        job.start(TrackerSelection([spec], []), lease_clock() + 300)
        started.append(job)
        return job

    yield start
    for job in started:
        job.stop()


def finish(job: JobTrackers, state: End = End.SUCCEEDED, seconds: float = 60.0) -> None:
    job.finish(state, seconds, lambda: None)
    assert job.finished


def warning(job: JobTrackers) -> str:
    """The first warning of a job."""

    def check() -> str | None:
        job.check()
        return next(iter(job.warnings), None)

    return wait_for(check, "a warning")


def logged(folder: Path) -> list[int]:
    return [step for _, step, _ in calls(folder, "log")]


def test_a_tracker_receives_all_metrics_before_the_end(tmp_path: Path, start: Start) -> None:
    reporter, job = Reporter(tmp_path), start()
    for step in range(5):
        reporter.metrics(step, loss=1.0)

    finish(job, End.FAILED)

    assert [call[0] for call in calls(tmp_path)] == ["start", *["log"] * 5, "finish"]
    assert calls(tmp_path)[-1] == ["finish", "failed"]
    assert job.warnings == []


def test_the_next_process_continues_after_the_last_step(tmp_path: Path, start: Start) -> None:
    reporter, first = Reporter(tmp_path), start()
    reporter.metrics(1, loss=1.0)
    wait_for(lambda: logged(tmp_path) == [1], "the first step")
    first.stop()
    reporter.metrics(2, loss=1.0)
    second = start()

    finish(second)

    assert logged(tmp_path) == [1, 2]
    assert [saved for _, _, saved in calls(tmp_path, "start")] == [{}, {"starts": 1}]
    assert [state for _, state in calls(tmp_path, "finish")] == ["interrupted", "succeeded"]
    assert (first.warnings, second.warnings) == ([], [])


def test_a_killed_tracker_is_a_warning_and_restarts(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "RESTART_SECONDS", 0.0)
    job = start("die")
    Reporter(tmp_path).metrics(1, loss=1.0)

    assert warning(job) == "The tracker fake failed: killed by SIGKILL"

    def restarted() -> bool:
        job.check()
        return len(calls(tmp_path, "start")) > 1

    wait_for(restarted, "another start")
    assert len(job.warnings) == 1


def test_a_warning_shows_no_secret(tmp_path: Path, start: Start) -> None:
    job = start("unreachable")

    expected = "The tracker fake failed: ConnectionError: no answer with key [FAKE_API_KEY]"
    assert warning(job) == expected
    log = (tmp_path / ".tracking" / "fake" / "log.txt").read_text()
    assert "Traceback" in log
    assert "sesame" not in log


@pytest.mark.parametrize("fault", ["hang", "hang at the end"])
def test_a_tracker_that_does_not_finish_is_stopped_with_a_warning(
    tmp_path: Path, start: Start, fault: str
) -> None:
    job = start(fault)
    wait_for(lambda: bool(calls(tmp_path, "start")), "the start")

    finish(job, seconds=0.2)

    assert job.warnings == ["The tracker fake did not finish in time and was stopped"]


def test_a_tracker_that_hangs_during_the_run_is_restarted(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "STALL_SECONDS", 0.1)
    job = start("hang")
    wait_for(lambda: bool(calls(tmp_path, "start")), "the start")
    Reporter(tmp_path).metrics(1, loss=1.0)

    assert "has not answered" in warning(job)


def test_a_tracker_that_cannot_be_started_is_a_warning(tmp_path: Path, start: Start) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")

    job = start()

    assert "The tracker fake could not be started" in job.warnings[0]
