"""The command line against a real gateway without workers: the tests advance the jobs."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database
from services.core.jobs.events import append_event
from services.core.jobs.store import fail_job, get_job, move_job
from temper.cli.main import main
from temper.client import Temper, Unreachable
from tests.support.processes import free_port

DEADLINE = 180.0
ROW = {"messages": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]}


@dataclass
class Gateway:
    """A running gateway, and the database behind it."""

    url: str
    home: Path
    database: Database

    def start(self, job_id: str) -> None:
        """Start a job."""
        for status in (JobStatus.QUEUED, JobStatus.RUNNING):
            with self.database.write() as session:
                move_job(session, get_job(session, job_id), status, f"now {status}")

    def step(self, job_id: str, number: int) -> None:
        """Report the metrics of a step."""
        with self.database.write() as session:
            data = {"step": number, "loss": 1.5, "learning_rate": 0.001}
            append_event(session, job_id, f"Step {number}", type="metrics", data=data)

    def end(self, job_id: str, status: JobStatus) -> None:
        """End a running job."""
        with self.database.write() as session:
            job = get_job(session, job_id)
            if status is JobStatus.FAILED:
                fail_job(session, job, JobError(code="out_of_memory", message="no memory"))
            else:
                move_job(session, job, status, f"now {status}")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("home")
    port = free_port()
    with open(home / "api.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "temper", "serve", "api", "--port", str(port)],
            env={**os.environ, "TEMPER_HOME": str(home)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    database = None
    try:
        with Temper(f"http://127.0.0.1:{port}") as client:
            wait_until_ready(client, process)
        database = Database(f"sqlite:///{home / 'temper.db'}")
        yield Gateway(f"http://127.0.0.1:{port}", home, database)
    finally:
        if database is not None:
            database.close()
        process.terminate()
        process.wait(DEADLINE)


def wait_until_ready(client: Temper, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        assert process.poll() is None, "the gateway ended"
        try:
            if client.is_ready():
                return
        except Unreachable:
            pass
        time.sleep(0.1)
    pytest.fail("the gateway did not get ready")


@pytest.fixture(autouse=True)
def folder(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a job file and its data, and the settings of the gateway."""
    monkeypatch.setenv("TEMPER_API_URL", gateway.url)
    monkeypatch.setenv("TEMPER_HOME", str(gateway.home))
    monkeypatch.chdir(tmp_path)
    # Unique content per test, so that uploads are not deduplicated across tests.
    (tmp_path / "train.jsonl").write_text(json.dumps({**ROW, "id": tmp_path.name}) + "\n")
    (tmp_path / "job.yaml").write_text(
        "kind: fine_tuning\nmodel: cli-base\ntraining_file: train.jsonl\n"
    )
    return tmp_path


@pytest.fixture(autouse=True, scope="module")
def base_model(gateway: Gateway) -> str:
    model = gateway.home / "models" / "cli-base"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "qwen3"}')
    (model / "model.safetensors").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPER_API_URL", gateway.url)
        assert main(["models", "register", "cli-base", "--folder", "cli-base"]) == 0
    return "cli-base"


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def submitted(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Submit the job file and return the job's id."""
    capsys.readouterr()
    assert main(["submit", "job.yaml", *options, "--json"]) == 0
    job_id: str = json.loads(output(capsys))["id"]
    return job_id


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


def test_job_data_is_uploaded_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "job.yaml"]) == 0
    first = capsys.readouterr()
    assert "uploaded train.jsonl" in first.err
    assert first.out.startswith("ftjob-")

    assert main(["submit", "job.yaml"]) == 0
    assert "already uploaded" in capsys.readouterr().err


def test_an_evaluation_can_be_submitted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rows.jsonl").write_text('{"prompt": "1+1", "gold": "2"}\n')
    (folder / "eval.json").write_text(
        '{"kind": "evaluation", "model": "cli-base", "file": "rows.jsonl"}'
    )

    assert main(["submit", "eval.json", "--json"]) == 0
    assert json.loads(output(capsys))["object"] == "evaluation"


def test_a_batch_can_be_submitted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "requests.jsonl").write_text('{"custom_id": "1"}\n')
    (folder / "batch.yaml").write_text(
        "kind: batch\ninput_file_id: requests.jsonl\n"
        "endpoint: /v1/chat/completions\ncompletion_window: 24h\n"
    )

    assert main(["submit", "batch.yaml", "--json"]) == 0
    assert json.loads(output(capsys))["kind"] == "batch"


LLAMAFACTORY = """
model_name_or_path: cli-owner/cli-model
trust_remote_code: true
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
dataset: first,second
template: llama3
cutoff_len: 512
output_dir: saves/x
logging_steps: 10
learning_rate: 1.0e-4
num_train_epochs: 3.0
bf16: true
"""


def test_a_llamafactory_file_is_submitted_with_its_data_and_hub_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"instruction": f"hi from {folder}", "input": "", "output": "hello"}
    (folder / "data").mkdir()
    info = {name: {"file_name": f"{name}.json"} for name in ("first", "second")}
    (folder / "data" / "dataset_info.json").write_text(json.dumps(info))
    for name in info:
        (folder / "data" / f"{name}.json").write_text(json.dumps([row]))
    (folder / "sft.yaml").write_text(LLAMAFACTORY)

    assert main(["submit", "sft.yaml", "--json"]) == 0

    said = capsys.readouterr()
    job = json.loads(said.out)
    hyperparameters = job["method"]["supervised"]["hyperparameters"]
    assert job["model"] == "cli-owner/cli-model"
    assert (hyperparameters["lora"]["rank"], hyperparameters["max_seq_length"]) == (8, 512)
    assert "registered cli-owner/cli-model from the hub" in said.err
    assert "trust_remote_code is ignored" in said.err

    assert main(["files", "download", job["training_file"], "-o", "merged.jsonl"]) == 0
    assert len((folder / "merged.jsonl").read_text().splitlines()) == 2


def test_a_rejected_submission_is_explained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "job.yaml").write_text("kind: fine_tuning\nmodel: nope\ntraining_file: train.jsonl\n")

    assert main(["submit", "job.yaml", "--json"]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert "'nope'" in said.err
    assert "request " in said.err


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


def test_files_can_be_uploaded_and_downloaded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["files", "upload", "train.jsonl", "--json"]) == 0
    stored = json.loads(output(capsys))

    assert main(["files", "list", "--json"]) == 0
    assert stored["id"] in [file["id"] for file in json.loads(output(capsys))["data"]]
    assert main(["files", "download", stored["id"], "-o", "copy.jsonl"]) == 0
    assert (folder / "copy.jsonl").read_bytes() == (folder / "train.jsonl").read_bytes()
    assert main(["files", "download", stored["id"]]) == 2  # it exists
    capsys.readouterr()
    assert main(["files", "delete", stored["id"], "--json"]) == 0
    assert json.loads(output(capsys))["deleted"] is True
    assert main(["files", "show", stored["id"]]) == 1


def test_models_can_be_registered_shown_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "register", "hub/one", "--hub", "owner/name", "--json"]) == 0
    assert json.loads(output(capsys))["hub_id"] == "owner/name"
    assert main(["models", "list"]) == 0
    assert "hub/one" in output(capsys)
    assert main(["models", "show", "hub/one"]) == 0
    assert main(["models", "delete", "hub/one"]) == 0
    capsys.readouterr()
    assert main(["models", "show", "hub/one"]) == 1
