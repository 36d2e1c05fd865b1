"""A job in an outage is tried again after a growing delay, for a day."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import JobFailed
from services.core.process.outages import GIVE_UP_SECONDS, Outage, Outages, pause_for
from services.core.process.reporter import RESULT, Reporter

DOWN = Outage("search is down")


def test_the_delay_grows_until_there_is_progress(tmp_path: Path) -> None:
    outages = Outages(tmp_path, clock=lambda: 0.0)
    delays = [Outages(tmp_path, clock=lambda: 0.0).begin(DOWN).seconds for _ in range(7)]
    assert delays == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    assert outages.ongoing

    outages.end()

    assert not outages.ongoing
    assert outages.begin(DOWN).seconds == 30.0


def test_a_job_fails_after_a_day_without_progress(tmp_path: Path) -> None:
    Outages(tmp_path, clock=lambda: 0.0).begin(DOWN)
    Outages(tmp_path, clock=lambda: GIVE_UP_SECONDS - 1).begin(DOWN)
    with pytest.raises(JobFailed, match="24 hours: search is down") as failed:
        Outages(tmp_path, clock=lambda: GIVE_UP_SECONDS).begin(DOWN)
    assert failed.value.code == "infrastructure_unavailable"


def test_a_failed_preflight_pauses_only_a_job_that_is_in_an_outage(tmp_path: Path) -> None:
    outages = Outages(tmp_path)
    with pytest.raises(JobFailed), outages.preflight() as repeated:
        assert not repeated
        raise JobFailed("no tool")

    outages.begin(DOWN)

    with pytest.raises(Outage, match="no tool"), outages.preflight() as repeated:
        assert repeated
        raise JobFailed("no tool")


def test_a_child_in_an_outage_leaves_its_cause(tmp_path: Path) -> None:
    pause_for(DOWN, tmp_path, Reporter(tmp_path))
    result = json.loads((tmp_path / RESULT).read_bytes())
    expected = {"message": "search is down", "seconds": 30.0}
    assert result == {"status": "paused", "outage": expected}
