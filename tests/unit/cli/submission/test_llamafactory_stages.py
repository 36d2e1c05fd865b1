"""LLaMA-Factory's training files of every stage, with datasets in their published formats."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.preference_optimization import (
    DpoHyperparameters,
    KtoHyperparameters,
)
from services.contracts.training.rows import DataFormat
from services.datasets.training_rows import TrainingRowReader
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission, SubmissionError

# As LLaMA-Factory publishes its examples.
TRAINING = """
### model
model_name_or_path: Qwen/Qwen3-4B-Instruct-2507
trust_remote_code: true

### method
stage: {stage}
do_train: true
{method}

### dataset
dataset: {dataset}
{template}
cutoff_len: 2048
max_samples: 1000
preprocessing_num_workers: 16
dataloader_num_workers: 4

### output
output_dir: saves/qwen3-4b/{stage}
logging_steps: 10
save_steps: 500
plot_loss: true
overwrite_output_dir: true
save_only_model: false
report_to: none

### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 5.0e-6
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
ddp_timeout: 180000000
resume_from_checkpoint: null
"""
LORA = "finetuning_type: lora\nlora_rank: 8\nlora_target: all\n"
TEMPLATE = "template: qwen3_nothink"
INFO = {
    "dpo_en_demo": {
        "file_name": "dpo_en_demo.json",
        "ranking": True,
        "formatting": "sharegpt",
        "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"},
    },
    "ranking_alpaca": {
        "file_name": "ranking.json",
        "ranking": True,
        "columns": {
            "prompt": "instruction",
            "query": "input",
            "chosen": "chosen",
            "rejected": "rejected",
        },
    },
    "kto_en_demo": {
        "file_name": "kto_en_demo.json",
        "formatting": "sharegpt",
        "columns": {"messages": "messages", "kto_tag": "label"},
        "tags": {
            "role_tag": "role",
            "content_tag": "content",
            "user_tag": "user",
            "assistant_tag": "assistant",
        },
    },
    "c4_demo": {"file_name": "c4_demo.jsonl", "columns": {"prompt": "text"}},
    "wiki_demo": {"file_name": "wiki_demo.txt", "columns": {"prompt": "text"}},
}
FILES = {
    "dpo_en_demo.json": json.dumps(
        [
            {
                "conversations": [{"from": "human", "value": "1+1?"}],
                "chosen": {"from": "gpt", "value": "2"},
                "rejected": {"from": "gpt", "value": "3"},
            }
        ]
    ),
    "ranking.json": json.dumps(
        [{"instruction": "1+1?", "input": "", "chosen": "2", "rejected": "3"}]
    ),
    "kto_en_demo.json": json.dumps(
        [
            {
                "messages": [
                    {"role": "user", "content": "1+1?"},
                    {"role": "assistant", "content": "2"},
                ],
                "label": label,
            }
            for label in (True, False)
        ]
    ),
    "c4_demo.jsonl": '{"text": "Once upon a time.", "timestamp": "2019", "url": "x"}\n',
    "wiki_demo.txt": "Anarchism is a philosophy.\n\nAlbedo is a share of light.\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder laid out like LLaMA-Factory's."""
    for folder in ("data", "examples/train_lora", "scratch"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data/dataset_info.json").write_text(json.dumps(INFO))
    for name, content in FILES.items():
        (tmp_path / "data" / name).write_text(content)
    return tmp_path


def read(
    repository: Path, stage: str, dataset: str, method: str = LORA, template: str = TEMPLATE
) -> Submission:
    path = repository / "examples/train_lora/stage.yaml"
    path.write_text(TRAINING.format(stage=stage, dataset=dataset, method=method, template=template))
    return read_job_file(path, repository / "scratch")


def settings(submission: Submission) -> Any:
    assert isinstance(submission.request, CreateFineTuningJob)
    assert submission.request.method is not None
    return submission.request.method.as_offline


def uploaded(submission: Submission) -> list[Any]:
    (file,) = submission.files
    return [json.loads(line) for line in file.path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("stage", "dataset", "rows"),
    [
        ("dpo", "dpo_en_demo", 1),
        ("dpo", "dpo_en_demo,ranking_alpaca", 2),
        ("rm", "dpo_en_demo", 1),
        ("kto", "kto_en_demo", 2),
        ("pt", "c4_demo", 1),
        ("pt", "c4_demo,wiki_demo", 3),
    ],
)
def test_a_published_data_set_becomes_rows_that_the_gateway_reads(
    repository: Path, stage: str, dataset: str, rows: int
) -> None:
    template = "" if stage == "pt" else TEMPLATE

    submission = read(repository, stage, dataset, template=template)

    reader = TrainingRowReader(settings(submission).rows, DataFormat.AUTO)
    read_rows = [reader.read(row) for row in uploaded(submission)]
    assert len(read_rows) == rows
    assert settings(submission).stage.value == stage
    if stage == "kto":
        assert [row.label for row in read_rows] == [True, False]
    if stage == "dpo":
        assert read_rows[-1].examples[0].turns[-1] == ("assistant", "2")


@pytest.mark.parametrize(
    ("method", "training_type"),
    [
        (LORA, TrainingType.LORA),
        ("finetuning_type: full\n", TrainingType.FULL),
        ("finetuning_type: freeze\nfreeze_trainable_layers: 4\n", TrainingType.FREEZE),
    ],
)
def test_every_training_type_is_accepted(
    repository: Path, method: str, training_type: TrainingType
) -> None:
    submission = read(repository, "dpo", "dpo_en_demo", method)

    assert settings(submission).training_type is training_type
    assert settings(submission).learning_rate == 5e-6


def test_settings_of_a_stage_become_those_of_its_method(repository: Path) -> None:
    dpo = read(
        repository,
        "dpo",
        "dpo_en_demo",
        f"{LORA}pref_beta: 0.2\npref_loss: simpo  # choices: [orpo, simpo]\nsimpo_gamma: 1.0\n",
    )
    kto = read(repository, "kto", "kto_en_demo", f"{LORA}pref_beta: 0.3\nref_model: base\n")

    chosen = settings(dpo)
    assert isinstance(chosen, DpoHyperparameters)
    assert (chosen.beta, chosen.loss.value, chosen.simpo_gamma) == (0.2, "simpo", 1.0)
    assert "pref_loss" not in chosen.llamafactory
    judged = settings(kto)
    assert isinstance(judged, KtoHyperparameters)
    assert (judged.beta, judged.reference_model) == (0.3, "base")


def test_arguments_of_other_stages_are_noted(repository: Path) -> None:
    submission = read(repository, "kto", "kto_en_demo", f"{LORA}pref_loss: sigmoid\n")

    assert any("pref_loss is ignored" in note for note in submission.notes)
    assert "pref_loss" not in settings(submission).llamafactory


@pytest.mark.parametrize(
    ("stage", "dataset", "problem"),
    [
        ("kto", "dpo_en_demo", "preference pairs where feedback rows are needed"),
        ("dpo", "kto_en_demo", "has no preference pairs"),
        ("kto", "c4_demo", "row 0 does not have the declared format"),
        ("dpo", "wiki_demo", "has no preference pairs"),
    ],
)
def test_a_dataset_with_other_rows_is_rejected(
    repository: Path, stage: str, dataset: str, problem: str
) -> None:
    with pytest.raises(SubmissionError, match=problem):
        read(repository, stage, dataset)


def sharegpt_rows(repository: Path, *turns: dict[str, Any]) -> None:
    (repository / "data/own.json").write_text(json.dumps([{"conversations": turns}]))
    entry = {"own": {"file_name": "own.json", "formatting": "sharegpt", "columns": {"system": "s"}}}
    (repository / "data/dataset_info.json").write_text(json.dumps(entry))


def test_what_a_turn_says_of_itself_stays_in_the_converted_row(repository: Path) -> None:
    asked, answer = {"from": "human", "value": "1+1?"}, {"from": "gpt", "value": "2"}
    sharegpt_rows(repository, asked, {**answer, "loss": False}, asked, answer)

    (row,) = uploaded(read(repository, "sft", "own"))

    assert row["conversations"][1] == {"from": "gpt", "value": "2", "loss": False}


def test_a_role_that_is_no_tag_of_the_dataset_is_named(repository: Path) -> None:
    sharegpt_rows(repository, {"from": "user", "value": "1+1?"}, {"from": "gpt", "value": "2"})

    with pytest.raises(SubmissionError, match=r"conversations\[0\].from is 'user'; .* 'human'"):
        read(repository, "sft", "own")
