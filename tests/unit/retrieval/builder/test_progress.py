"""Progress reports of a build."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.core.process.reporter import REPORTS, Reporter
from services.retrieval.builder import progress
from services.retrieval.builder.progress import METRICS_SECONDS, BuildProgress


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def reports(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / REPORTS).read_text().splitlines()
    return [report for report in map(json.loads, lines) if report["type"] == kind]


def test_the_remaining_time_uses_this_attempt_only(tmp_path: Path, clock: Clock) -> None:
    build = BuildProgress(Reporter(tmp_path))
    build.begin("encoding", done=500)
    clock.now += 10

    build.report(600, 1000)

    (report,) = reports(tmp_path, "progress")
    assert (report["step"], report["total_steps"]) == (600, 1000)
    assert report["eta_seconds"] == pytest.approx(40)


def test_progress_is_rate_limited_except_the_last_step(tmp_path: Path, clock: Clock) -> None:
    build = BuildProgress(Reporter(tmp_path))
    build.begin("reading")
    for done in range(1, 101):
        clock.now += 0.001
        build.report(done, 100)

    steps = [report["step"] for report in reports(tmp_path, "progress")]

    assert steps == [1, 100]


def test_metrics_are_reported_periodically(tmp_path: Path, clock: Clock) -> None:
    build = BuildProgress(Reporter(tmp_path))
    build.begin("encoding")
    for done in (100, 200, 300):
        clock.now += METRICS_SECONDS
        build.report(done, 1000)

    rates = [report["metrics"]["passages_per_second"] for report in reports(tmp_path, "metrics")]

    assert rates == [pytest.approx(100 / METRICS_SECONDS)] * 3


def test_the_total_is_never_below_the_done_count(tmp_path: Path, clock: Clock) -> None:
    build = BuildProgress(Reporter(tmp_path))
    build.begin("reading")

    build.report(12, 11.4)

    (report,) = reports(tmp_path, "progress")
    assert report["total_steps"] == 12
