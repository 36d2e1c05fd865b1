"""Listing, following and controlling jobs by the command line."""

import json
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest

from services.contracts.jobs import JobStatus
from services.jobs.store import get_job
from temper.cli.main import main
from temper.client import Temper
from tests.integration.cli.gateway import Gateway, output, submitted

DEADLINE = 180.0


def test_a_submitted_job_is_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    job_id = submitted(capsys, "--metadata", "run=listed")

    assert main(["ps", "--metadata", "run=listed", "--json"]) == 0
    listed = json.loads(output(capsys))
    assert [job["id"] for job in listed["data"]] == [job_id]

    assert main(["ps", "--status", "validating_files", "--kind", "fine_tuning"]) == 0
    assert job_id in output(capsys)

    assert main(["show", job_id, "--json"]) == 0
    shown = json.loads(output(capsys))
    assert (shown["model"], shown["metadata"]) == ("cli-base", {"run": "listed"})

    assert main(["show", job_id]) == 0
    address = re.search(rf"curl (\S+/v1/jobs/{job_id}/artifacts)", capsys.readouterr().err)
    assert address is not None
    assert httpx.get(address[1], timeout=60).json()["object"] == "list"


@pytest.mark.parametrize(
    ("status", "code"),
    [(JobStatus.SUCCEEDED, 0), (JobStatus.FAILED, 1), (JobStatus.CANCELLED, 3)],
)
def test_wait_and_follow_exit_with_the_jobs_code(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], status: JobStatus, code: int
) -> None:
    job_id = submitted(capsys)
    gateway.start(job_id)
    gateway.step(job_id, 7)
    gateway.end(job_id, status)

    assert main(["wait", job_id, "--json"]) == code
    assert json.loads(output(capsys))["status"] == status
    assert main(["logs", "-f", job_id]) == code
    assert "Step 7" in output(capsys)


def test_a_failed_job_shows_its_error(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    job_id = submitted(capsys)
    gateway.start(job_id)
    gateway.end(job_id, JobStatus.FAILED)

    assert main(["show", job_id]) == 0
    assert "no memory (out_of_memory)" in output(capsys)


def test_a_failed_job_is_retried_and_one_that_waits_is_not(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = submitted(capsys)
    gateway.start(job_id)
    gateway.end(job_id, JobStatus.FAILED)

    assert main(["retry", job_id]) == 0
    assert output(capsys) == f"{job_id} is validating_files\n"
    assert main(["retry", job_id]) == 1
    assert job_id in capsys.readouterr().err


def test_wait_times_out(capsys: pytest.CaptureFixture[str]) -> None:
    job_id = submitted(capsys)

    assert main(["wait", job_id, "--timeout", "0.1"]) == 124
    assert "wait_timed_out" in capsys.readouterr().err


def test_a_queued_job_is_paused_and_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    job_id = submitted(capsys)
    assert main(["pause", job_id]) == 0
    assert "pausing" in output(capsys)  # its files are still to be validated
    assert main(["pause", job_id]) == 1
    assert "job_pausing" in capsys.readouterr().err
    assert main(["resume", job_id]) == 0
    assert main(["resume", job_id]) == 1
    assert "job_not_paused" in capsys.readouterr().err


def test_a_queued_job_is_cancelled_immediately(capsys: pytest.CaptureFixture[str]) -> None:
    job_id = submitted(capsys)

    assert main(["cancel", job_id, "--json"]) == 0
    assert json.loads(output(capsys))["status"] == "cancelled"
    assert main(["wait", job_id]) == 3


def test_submit_follow_streams_json_lines_until_the_end(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    def drive() -> None:
        with Temper(gateway.url) as client:
            job_id = newest_labeled(client, "run", "streamed")
        gateway.start(job_id)
        gateway.step(job_id, 1)
        gateway.end(job_id, JobStatus.SUCCEEDED)

    driver = threading.Thread(target=drive)
    driver.start()
    code = main(["submit", "job.yaml", "--follow", "--json", "-m", "run=streamed"])
    driver.join(DEADLINE)

    lines = [json.loads(line) for line in output(capsys).splitlines()]
    assert code == 0
    assert {line["object"] for line in lines[1:-1]} == {"fine_tuning.job.event"}
    assert any(line.get("type") == "metrics" for line in lines)
    assert (lines[0]["id"], lines[-1]["status"]) == (lines[-1]["id"], "succeeded")


def newest_labeled(client: Temper, key: str, value: str) -> str:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if data := client.jobs.page(metadata={key: value}).data:
            return data[0].id
        time.sleep(0.05)
    raise AssertionError("the job was not submitted")


def test_logs_show_the_latest_events_oldest_first(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = submitted(capsys)
    gateway.start(job_id)
    for number in range(130):
        gateway.step(job_id, number)

    assert main(["logs", job_id, "-n", "120", "--json"]) == 0

    steps = [json.loads(line)["data"]["step"] for line in output(capsys).splitlines()]
    assert steps == list(range(10, 130))


def test_ctrl_c_detaches_and_prints_how_to_reattach(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = submitted(capsys)
    gateway.start(job_id)
    gateway.step(job_id, 1)
    follower = subprocess.Popen(
        [sys.executable, "-m", "temper", "logs", "-f", job_id],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    while "Step 1" not in follower.stdout.readline():
        assert follower.poll() is None

    follower.send_signal(signal.SIGINT)
    _, said = follower.communicate(timeout=DEADLINE)

    assert follower.returncode == 130
    assert f"temper logs -f {job_id}" in said
    assert f"temper cancel {job_id}" in said
    with gateway.database.read() as session:
        assert get_job(session, job_id).status is JobStatus.RUNNING
