"""When a child counts as hung, and what its worker then says and does."""

import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.process.reporter import Reporter
from services.core.process.supervised import lease_clock
from services.jobs.claims import Claim
from services.jobs.events import events_after
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.reports import MetricsReport, PhaseReport, ProgressReport
from services.jobs.worker.run import ClaimRun
from services.jobs.worker.settings import WorkerSettings
from services.jobs.worker.shutdown import Shutdown
from services.jobs.worker.stalls import ProgressWatch, StallLimits, look_into
from tests.unit.jobs.fake_nvml import GIB, FakeNvml
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read

LIMITS = StallLimits(least=1800.0, most=7200.0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(tmp_path: Path, clock: Clock) -> ProgressWatch:
    return ProgressWatch(tmp_path, LIMITS, clock)


def step(number: int) -> ProgressReport:
    return ProgressReport(type="progress", step=number, total_steps=10)


def test_a_child_that_reports_new_steps_never_hangs(watch: ProgressWatch, clock: Clock) -> None:
    for number in range(1, 9):
        clock.now += 1000.0
        watch.note([step(number)])

        assert watch.silent_for() is None


def test_a_child_that_repeats_a_step_hangs(watch: ProgressWatch, clock: Clock) -> None:
    watch.note([step(1)])
    for _ in range(20):
        clock.now += 100.0
        values = {"tokens_per_second": 1.0 / clock.now}
        watch.note([step(1), MetricsReport(type="metrics", step=1, metrics=values)])

    assert watch.silent_for() == pytest.approx(1900.0)


@pytest.mark.parametrize(("pace", "bound"), [(1.0, 1800.0), (300.0, 3000.0), (1500.0, 7200.0)])
def test_the_bound_is_ten_times_the_longest_silence_within_its_limits(
    watch: ProgressWatch, clock: Clock, pace: float, bound: float
) -> None:
    for number in range(1, 4):
        clock.now += pace
        watch.note([step(number)])

    assert watch.bound == bound
    clock.now += bound
    assert watch.silent_for() is None
    clock.now += 1.0
    assert watch.silent_for() == bound + 1.0


@pytest.mark.parametrize("name", ["rows.jsonl", "output/checkpoint-1/model.safetensors"])
def test_a_growing_file_is_progress(
    watch: ProgressWatch, clock: Clock, tmp_path: Path, name: str
) -> None:
    watch.note([step(1)])
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for size in range(1, 5):
        clock.now += 1700.0
        file.write_bytes(b"x" * size)

        assert watch.silent_for() is None


def test_a_tick_within_a_long_step_is_progress(
    watch: ProgressWatch, clock: Clock, tmp_path: Path
) -> None:
    watch.note([step(1)])
    for _ in range(4):
        clock.now += 1700.0
        Reporter(tmp_path).tick()

        assert watch.silent_for() is None


def test_a_log_is_progress_only_until_the_first_step(
    watch: ProgressWatch, clock: Clock, tmp_path: Path
) -> None:
    watch.note([PhaseReport(type="phase", phase="loading_model")])
    for size in range(1, 4):
        clock.now += 170.0
        (tmp_path / "vllm.log").write_bytes(b"x" * size)
        assert watch.silent_for() is None
    watch.note([step(1)])
    clock.now += 11.0
    assert watch.silent_for() is None  # the log counts no more, which is a change itself

    for size in range(4, 30):
        clock.now += 100.0
        (tmp_path / "vllm.log").write_bytes(b"x" * size)
        (tmp_path / "log.txt").write_bytes(b"x" * size)

    assert watch.silent_for() is not None


def test_a_child_whose_gpu_computes_hangs_only_at_the_longest_bound(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml({"GPU-a": (GIB, 80 * GIB)}, percent={"GPU-a": 100})
    nvml.install(monkeypatch)
    watch = ProgressWatch(tmp_path, LIMITS, clock, gpus=["GPU-a"])
    watch.note([step(1)])
    while clock.now < 7200.0:
        clock.now += 10.0
        assert watch.silent_for() is None, clock.now

    clock.now += 10.0
    assert watch.silent_for() == 7210.0


def test_a_child_whose_gpu_ends_to_compute_is_noticed_within_a_minute(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml({"GPU-a": (GIB, 80 * GIB)}, percent={"GPU-a": 100})
    nvml.install(monkeypatch)
    watch = ProgressWatch(tmp_path, LIMITS, clock, gpus=["GPU-a"])
    watch.note([step(1)])
    while clock.now < 2000.0:
        clock.now += 10.0
        assert watch.silent_for() is None
    nvml.percent["GPU-a"] = 0
    while (silence := watch.silent_for()) is None:
        clock.now += 10.0

    assert 2000.0 < silence <= 2060.0
    assert watch.bound == LIMITS.least


# Each child hangs where real ones did; a thread repeats reports and log lines meanwhile.
START = """
import json, os, pathlib, subprocess, sys, threading, time
def report(**fields):
    with open('reports.jsonl', 'a') as file: file.write(json.dumps({'time': 0, **fields}) + '\\n')
def hang_in(): time.sleep(600)
def chatter():
    while True:
        time.sleep(0.2)
        report(type='progress', step=1, total_steps=9); print('still here', flush=True)
report(type='phase', phase='work'); report(type='progress', step=1, total_steps=9)
threading.Thread(target=chatter, daemon=True).start()
"""
HANGS = {
    "import": "pathlib.Path('slow.py').write_text('import time; time.sleep(600)')\n"
    "sys.path.insert(0, '.'); import slow",
    "load": "def load_weights(): hang_in()\nload_weights()",
    "collective": "import socket; ends = socket.socketpair()\n"
    "def all_reduce(): ends[0].recv(1)\nall_reduce()",
    "save": "os.mkfifo('pipe')\ndef save(): open('pipe', 'w')\nsave()",
    "engine": "engine = 'def generate():\\n while True: pass\\ngenerate()'\n"
    "subprocess.run([sys.executable, '-c', engine])",
}
PLACES = {
    "import": "slow.py:1",
    "load": "load_weights",
    "collective": "all_reduce",
    "save": "save",
    "engine": "generate",
}


class Handler:
    def __init__(self, script: str, *, idles: bool = False) -> None:
        self.script = script
        self.idles = idles

    def validation(self, *_: Any) -> None: ...

    def work(self, *_: Any) -> Launch:
        return Launch([sys.executable, "-c", self.script], saves_on_pause=True, idles=self.idles)

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        return result


def run(database: Database, held: Claim, home: Path, handler: Handler) -> Job:
    ClaimRun(
        held,
        deadline=lease_clock() + 60.0,
        database=database,
        handler=handler,
        settings=WorkerSettings(
            home=home,
            grace_seconds=0.2,
            retry_seconds=0.0,
            stall_seconds=1.0,
            stall_max_seconds=1.0,
        ),
        job_dir=home / "job",
        notes=home / "notes",
        stopping=Shutdown(),
    ).run()
    return read(database, held.job.id)


@pytest.fixture
def held(database: Database) -> Claim:
    queued_job(database)
    return claim(database, cpu_worker())


@pytest.mark.parametrize("where", sorted(HANGS))
def test_a_child_that_hangs_is_stopped_and_tried_again_with_its_place(
    database: Database, held: Claim, tmp_path: Path, where: str
) -> None:
    job = run(database, held, tmp_path, Handler(START + HANGS[where]))

    assert (job.status, job.losses) == (JobStatus.QUEUED, 1)
    with database.read() as session:
        event = events_after(session, job.id, 0, 100)[-1]
    assert "made no progress" in event.message
    assert event.data is not None
    assert any(PLACES[where] in place for place in event.data["hangs_in"]), event.data["hangs_in"]
    assert PLACES[where].partition(":")[0] in (tmp_path / "job" / "log.txt").read_text()


def test_the_report_of_a_hang_has_the_use_of_the_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeNvml({"GPU-a": (GIB, 80 * GIB)}, percent={"GPU-a": 3}).install(monkeypatch)

    stall = look_into("no-tree", tmp_path, 1900.0, 1800.0, ["GPU-a"])

    told = "GPU-a computes 3 % of the time, 1.0 of 80.0 GiB in use"
    assert [str(use) for use in stall.gpus] == [told]
    assert f"[{told}]" in (tmp_path / "log.txt").read_text()


def test_a_child_that_hangs_twice_without_progress_fails_its_job(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    run(database, held, tmp_path, Handler(START + HANGS["load"]))

    again = claim(database, cpu_worker())
    job = run(database, again, tmp_path, Handler(START + HANGS["load"]))

    assert job.status is JobStatus.FAILED
    assert job.error is not None
    assert job.error.code == "hung"
    assert "2 attempts were lost without progress" in job.error.message


def test_a_child_that_waits_for_requests_may_be_silent(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    script = "import time; time.sleep(3); " + (
        "open('result.json', 'w').write('{\"status\": \"succeeded\"}')"
    )

    assert run(database, held, tmp_path, Handler(script, idles=True)).status is JobStatus.SUCCEEDED
