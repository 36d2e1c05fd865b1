import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.optimizer import TrainingType
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission, SubmissionError

TRAINING = """
model_name_or_path: owner/model
trust_remote_code: true
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
dataset: {datasets}
template: qwen3_nothink
cutoff_len: 2048
max_samples: 2
output_dir: saves/x
per_device_train_batch_size: 1
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
"""

INFO: dict[str, dict[str, Any]] = {
    "greetings": {"file_name": "greetings.json"},
    "sums": {
        "file_name": "sums.jsonl",
        "columns": {"prompt": "question", "response": "answer", "system": "rule"},
    },
    "chats": {
        "file_name": "chats.jsonl",
        "formatting": "sharegpt",
        "columns": {"messages": "turns"},
        "tags": {
            "role_tag": "role",
            "content_tag": "content",
            "user_tag": "user",
            "assistant_tag": "assistant",
        },
    },
    "online": {"hf_hub_url": "owner/data"},
    "scripted": {"script_url": "reviews", "split": "test"},
    "part": {"hf_hub_url": "owner/data", "subset": "en"},
    "pictures": {"file_name": "greetings.json", "columns": {"images": "images"}},
    "pairs": {"file_name": "greetings.json", "ranking": True},
    "missing": {"file_name": "missing.json"},
}

GREETINGS = [{"instruction": f"hi {n}", "input": "there", "output": "hello"} for n in range(5)]
SUMS = [{"question": "1+1", "answer": "2", "rule": "add", "input": "not used"}]
CHATS = [{"turns": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder laid out like LLaMA-Factory's: data at the top, training files two levels down."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "examples" / "train_lora").mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    (data / "dataset_info.json").write_text(json.dumps(INFO))
    (data / "greetings.json").write_text(json.dumps(GREETINGS))
    for name, rows in (("sums", SUMS), ("chats", CHATS)):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def read(repository: Path, datasets: str, more: str = "") -> Submission:
    path = repository / "examples" / "train_lora" / "sft.yaml"
    given = {line.partition(":")[0] for line in more.splitlines()}
    kept = TRAINING.format(datasets=datasets).splitlines(keepends=True)
    path.write_text("".join(line for line in kept if line.partition(":")[0] not in given) + more)
    return read_job_file(path, repository / "scratch")


def request_of(submission: Submission) -> CreateFineTuningJob:
    assert isinstance(submission.request, CreateFineTuningJob)
    return submission.request


def merged(submission: Submission) -> list[Any]:
    (file,) = submission.files
    return [json.loads(line) for line in file.path.read_text().splitlines()]


def arguments(submission: Submission) -> dict[str, Any]:
    method = request_of(submission).method
    assert method is not None
    return method.as_offline.llamafactory


def test_a_plain_dataset_is_uploaded_unchanged(repository: Path) -> None:
    submission = read(repository, "greetings")

    request = request_of(submission)
    assert request.method is not None
    hyperparameters = request.method.as_offline
    assert request.model == "owner/model"
    assert submission.hub_model == "owner/model"
    assert [file.path for file in submission.files] == [repository / "data" / "greetings.json"]
    assert (hyperparameters.training_type, hyperparameters.lora.rank) == (TrainingType.LORA, 8)
    assert arguments(submission)["max_samples"] == 2


def test_several_datasets_are_merged_with_a_limit_each(repository: Path) -> None:
    submission = read(repository, "greetings,sums,chats")

    rows = merged(submission)
    assert [row["conversations"][0]["value"] for row in rows] == [
        "hi 0\nthere",
        "hi 1\nthere",
        "1+1",
        "a",
    ]
    assert rows[2]["system"] == "add"
    assert rows[3]["conversations"][1] == {"from": "gpt", "value": "b"}
    assert "max_samples" not in arguments(submission)


def test_a_hub_dataset_is_referenced_by_name(repository: Path) -> None:
    submission = read(repository, "online")

    assert request_of(submission).training_file == "hf://datasets/owner/data"
    assert submission.files == ()


def test_a_dataset_script_is_referenced_and_its_code_stays_here(repository: Path) -> None:
    submission = read(repository, "scripted")

    assert request_of(submission).training_file == "script:reviews/reviews.py#test"
    assert submission.files == ()


def test_validation_data_is_uploaded(repository: Path) -> None:
    submission = read(repository, "greetings", "eval_dataset: greetings\n")

    assert [file.field for file in submission.files] == ["training_file", "validation_file"]


def test_ignored_arguments_are_noted(repository: Path) -> None:
    assert any("trust_remote_code" in note for note in read(repository, "greetings").notes)


@pytest.mark.parametrize(
    ("datasets", "said"),
    [
        ("nope", "has no 'nope'"),
        ("pictures", "rows with images"),
        ("pairs", "preference pairs"),
        ("part", "subset"),
        ("missing", "does not exist"),
        ("greetings,online", "can be combined"),
    ],
)
def test_unsupported_datasets_are_rejected_with_reason(
    repository: Path, datasets: str, said: str
) -> None:
    with pytest.raises(SubmissionError, match="dataset") as caught:
        read(repository, datasets)

    assert said in caught.value.message


def test_a_row_in_another_format_is_reported(repository: Path) -> None:
    (repository / "data" / "chats.jsonl").write_text(json.dumps(CHATS[0]) + "\n" + "{}\n")

    with pytest.raises(SubmissionError, match="dataset chats: row 1"):
        read(repository, "chats,sums")


def test_an_unknown_argument_is_named(repository: Path) -> None:
    with pytest.raises(SubmissionError, match="learning_rat "):
        read(repository, "greetings", "learning_rat: 1\n")


def test_an_unknown_template_is_rejected_before_data_is_prepared(repository: Path) -> None:
    with pytest.raises(SubmissionError, match=r"sft\.yaml: .* the nearest one is qwen3_nothink"):
        read(repository, "greetings,sums", "template: qwen3_nothin\n")

    assert list((repository / "scratch").iterdir()) == []


@pytest.mark.parametrize("seed", ["abc", "-1"])
def test_an_invalid_seed_is_named(repository: Path, seed: str) -> None:
    with pytest.raises(SubmissionError, match=r"sft\.yaml: seed must be"):
        read(repository, "greetings", f"seed: {seed}\n")


def test_a_training_file_without_dataset_info_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "sft.yaml"
    path.write_text(TRAINING.format(datasets="greetings"))

    with pytest.raises(SubmissionError, match=r"data/dataset_info\.json"):
        read_job_file(path, tmp_path)


def test_merging_refuses_columns_that_would_lose_their_meaning(repository: Path) -> None:
    rows = [{**SUMS[0], "label": False}]
    (repository / "data" / "sums.jsonl").write_text(json.dumps(rows[0]))
    with pytest.raises(SubmissionError, match=r"row 0 .*label is false"):
        read(repository, "sums")


def test_merging_keeps_other_columns_for_validation_to_report(repository: Path) -> None:
    (repository / "data" / "sums.jsonl").write_text(json.dumps({**SUMS[0], "id": 7}))
    (row,) = merged(read(repository, "sums"))
    assert (row["id"], row["system"]) == (7, "add")
    assert "input" not in row


def test_each_evaluation_dataset_has_a_field_of_its_name_where_the_file_asks(
    repository: Path,
) -> None:
    named = "eval_dataset: greetings,sums\neval_on_each_dataset: true\n"

    submission = read(repository, "chats", named)

    request = request_of(submission)
    assert request.validation_file is None
    assert request.validation_files is not None
    assert list(request.validation_files) == ["greetings", "sums"]
    assert [file.field for file in submission.files] == [
        "training_file",
        "validation_files.greetings",
        "validation_files.sums",
    ]
    assert not any("eval_on_each_dataset" in note for note in submission.notes)


def test_datasets_are_interleaved_as_the_file_asks(repository: Path) -> None:
    submission = read(repository, "greetings,sums", "mix_strategy: interleave_under\n")

    answers = [row["conversations"][-1]["value"] for row in merged(submission)]
    assert answers == ["hello", "2"]
    assert not {"mix_strategy", "interleave_probs"} & arguments(submission).keys()
    assert [path.name for path in (repository / "scratch").iterdir()] == ["training_file.jsonl"]


def test_num_samples_draws_rows_by_the_seed(repository: Path) -> None:
    info = {**INFO, "greetings": {**INFO["greetings"], "num_samples": 40}}
    (repository / "data" / "dataset_info.json").write_text(json.dumps(info))
    unlimited = TRAINING.replace("max_samples: 2", "")

    def rows(seed: int) -> list[Any]:
        path = repository / "examples" / "train_lora" / "sft.yaml"
        path.write_text(unlimited.format(datasets="greetings") + f"seed: {seed}\n")
        return merged(read_job_file(path, repository / "scratch"))

    first = rows(1)
    assert len(first) == 40
    assert first == rows(1) != rows(2)


def test_invalid_probabilities_are_named(repository: Path) -> None:
    with pytest.raises(SubmissionError, match="interleave_probs has 3 values for 2 datasets"):
        read(
            repository,
            "greetings,sums",
            "mix_strategy: interleave_over\ninterleave_probs: 0.2,0.3,0.5\n",
        )


def test_generation_of_a_file_becomes_the_field(repository: Path) -> None:
    submission = read(
        repository,
        "greetings",
        "eval_dataset: greetings\npredict_with_generate: true\nmax_new_tokens: 64\nnum_beams: 2\n",
    )

    method = request_of(submission).method
    assert method is not None
    assert method.supervised is not None
    generation = method.supervised.hyperparameters.generation
    assert generation is not None
    assert generation.max_tokens == 64
    assert arguments(submission)["num_beams"] == 2
