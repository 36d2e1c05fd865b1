"""Submitting jobs, uploading files and registering models by the command line."""

import json
from pathlib import Path

import pytest

from temper.cli.main import main
from tests.integration.cli.gateway import output


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
