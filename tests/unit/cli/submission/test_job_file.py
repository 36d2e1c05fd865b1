from pathlib import Path

import pytest

from services.contracts.batches.batches import CreateBatch
from services.contracts.data.files import FilePurpose
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.retrieval.indexes import CreateIndexingJob, IndexMode
from services.contracts.rewards.graders import NumericGrader
from services.contracts.training.fine_tuning import CreateFineTuningJob
from temper.submission.job_file import read_job_file
from temper.submission.submission import SubmissionError

FINE_TUNING = """
kind: fine_tuning
model: tiny
training_file: train.jsonl
method:
  supervised:
    hyperparameters: {n_epochs: 3, learning_rate: 1e-3}
"""
EVALUATION_YAML = "\nkind: evaluation\nmodel: m\nfile: file-1\n"
EVALUATION = '{"kind": "evaluation", "model": "m", "file": "file-1", "grader": {"type":"numeric"}}'


def write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.touch()
    return path


def test_a_fine_tuning_job_is_read(tmp_path: Path, data: Path) -> None:
    submission = read_job_file(write(tmp_path, FINE_TUNING), tmp_path)

    request = submission.request
    assert isinstance(request, CreateFineTuningJob)
    assert request.method is not None
    assert request.method.as_offline.learning_rate == 1e-3
    assert [(file.field, file.path) for file in submission.files] == [("training_file", data)]


def test_every_file_of_a_mixture_and_every_validation_file_is_uploaded(
    tmp_path: Path, data: Path
) -> None:
    text = """
kind: fine_tuning
model: tiny
training_files: [{file: train.jsonl}, {file: file-2, num_samples: 7}]
mixing: {strategy: interleave_over, probabilities: [0.25, 0.75]}
validation_files: {math: train.jsonl, chat: file-3}
"""
    submission = read_job_file(write(tmp_path, text), tmp_path)

    request = submission.request
    assert isinstance(request, CreateFineTuningJob)
    fields = [file.field for file in submission.files]
    assert fields == ["training_files.0.file", "validation_files.math"]
    sent = request.with_file_references(dict.fromkeys(fields, "file-1"))
    assert sent.training_file == "file-1"
    assert sent.training_files is not None
    assert [(each.file, each.num_samples) for each in sent.training_files] == [
        ("file-1", None),
        ("file-2", 7),
    ]
    assert sent.validation_files == {"math": "file-1", "chat": "file-3"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("training_file: file-1, mixing: {strategy: interleave_under}", "two or more"),
        (
            "training_files: [{file: file-1}, {file: file-2}], mixing: {probabilities: [0.5, 0.5]}",
            "no effect with strategy concat",
        ),
        ("training_file: file-2, training_files: [{file: file-1}]", "must be the first"),
        (
            "training_file: file-1, validation_file: file-2, validation_files: {a: file-3}",
            "not both",
        ),
        ("training_file: file-1, validation_files: {training: file-3}", "cannot be named training"),
    ],
)
def test_contradictory_files_are_refused(tmp_path: Path, fields: str, said: str) -> None:
    text = f"{{kind: fine_tuning, model: tiny, {fields}}}"

    with pytest.raises(SubmissionError, match=said):
        read_job_file(write(tmp_path, text), tmp_path)


def test_the_best_checkpoint_of_several_validation_files_names_one(tmp_path: Path) -> None:
    text = """
kind: fine_tuning
model: tiny
training_file: file-1
validation_files: {math: file-2, chat: file-3}
hyperparameters: {llamafactory: {load_best_model_at_end: true%s}}
"""
    with pytest.raises(SubmissionError, match="must be one of math_loss, math_accuracy, chat_loss"):
        read_job_file(write(tmp_path, text % ""), tmp_path)

    read_job_file(write(tmp_path, text % ", metric_for_best_model: math_loss"), tmp_path)


def test_rewards_that_an_advantage_cannot_be_given_are_refused_by_line(tmp_path: Path) -> None:
    text = """
kind: fine_tuning
model: tiny
training_file: file-1
method:
  type: reinforcement
  reinforcement:
    rewards:
      - {name: found, reward: {type: search_em}}
      - {name: tools, reward: {type: retool}}
    hyperparameters: {advantage: max_rl}
"""
    with pytest.raises(SubmissionError, match="scores wrong answers below 0") as said:
        read_job_file(write(tmp_path, text), tmp_path)
    assert "line 10: method.reinforcement.rewards.1" in said.value.message


def test_settings_of_a_loss_without_effect_are_refused_by_line(tmp_path: Path) -> None:
    text = """
kind: fine_tuning
model: tiny
training_file: file-1
method:
  type: ppo
  ppo:
    rewards: [{name: found, reward: {type: search_em}}]
    hyperparameters:
      loss: {objective: kl_cov, dual_clip: %s}
"""
    with pytest.raises(SubmissionError, match="dual_clip has no effect with the objective") as said:
        read_job_file(write(tmp_path, text % 3.0), tmp_path)
    assert "method.ppo.hyperparameters.loss.dual_clip" in said.value.message

    read_job_file(write(tmp_path, text % "null"), tmp_path)


def test_an_evaluation_in_json_is_read(tmp_path: Path) -> None:
    request = read_job_file(write(tmp_path, EVALUATION), tmp_path).request

    assert isinstance(request, CreateEvaluation)
    assert isinstance(request.grader, NumericGrader)


def test_an_indexing_job_uploads_its_corpus(tmp_path: Path, data: Path) -> None:
    text = "kind: indexing\nindex: wiki\nfile: train.jsonl\nmode: hybrid"

    submission = read_job_file(write(tmp_path, text), tmp_path)

    request = submission.request
    assert isinstance(request, CreateIndexingJob)
    assert (request.index, request.mode) == ("wiki", IndexMode.HYBRID)
    (file,) = submission.files
    assert (file.field, file.path, file.purpose) == ("file", data, FilePurpose.USER_DATA)


def test_a_batch_uploads_its_requests(tmp_path: Path, data: Path) -> None:
    text = """
kind: batch
input_file_id: train.jsonl
endpoint: /v1/chat/completions
completion_window: 24h
"""
    submission = read_job_file(write(tmp_path, text), tmp_path)

    assert isinstance(submission.request, CreateBatch)
    (file,) = submission.files
    assert (file.field, file.path, file.purpose) == ("input_file_id", data, FilePurpose.BATCH)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: dance\nmodel: m", "kind is 'dance'"),
        ("kind: [evaluation]", "kind is"),
        ("model: m", "neither a Temper job"),
        ("[1, 2]", "not a mapping"),
        ("a: [1", "not YAML or JSON"),
        ("a: " + "[" * 5000, "not YAML or JSON"),
        (FINE_TUNING + "epochs: 3", "epochs: Extra inputs"),
        ("kind: evaluation\nfile: f", "model: Field required"),
        ("kind: fine_tuning\nmodel: !!python/name:os.system x", "not YAML or JSON"),
        (FINE_TUNING.replace("train.jsonl", "gone.jsonl"), "training_file: 'gone.jsonl'"),
        (
            FINE_TUNING.replace("train.jsonl", "~no-such-user/a.jsonl"),
            "training_file: '~no-such-user/a.jsonl'",
        ),
    ],
)
def test_an_invalid_job_file_is_explained(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SubmissionError, match=r"job\.yaml") as caught:
        read_job_file(write(tmp_path, text), tmp_path)

    assert said in caught.value.message


OLDER_PLACE = """
kind: fine_tuning
model: tiny
training_file: train.jsonl
hyperparameters: {%s}
"""
PLACE = OLDER_PLACE.replace(
    "hyperparameters: {%s}", "method: {supervised: {hyperparameters: {%s}}}"
)


@pytest.mark.parametrize(
    ("text", "place"),
    [(OLDER_PLACE, "hyperparameters"), (PLACE, "method.supervised.hyperparameters")],
)
@pytest.mark.parametrize(
    ("settings", "field", "said"),
    [
        ("template: qwen3_nothin", "template", "the nearest one is qwen3_nothink"),
        ("llamafactory: {lora_rnk: 8}", "llamafactory.lora_rnk", "lora_rank"),
        ("llamafactory: {output_dir: x}", "llamafactory.output_dir", "cannot be set"),
    ],
)
def test_invalid_llamafactory_arguments_are_rejected_before_upload(
    tmp_path: Path, data: Path, text: str, place: str, settings: str, field: str, said: str
) -> None:
    with pytest.raises(SubmissionError, match=r"job\.yaml") as caught:
        read_job_file(write(tmp_path, text % settings), tmp_path)

    assert f" {place}.{field}: " in caught.value.message
    assert said in caught.value.message


def test_a_large_file_is_rejected_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "weights.yaml"
    with open(path, "wb") as file:
        file.truncate(1 << 30)

    with pytest.raises(SubmissionError, match="at most"):
        read_job_file(path, tmp_path)


@pytest.mark.parametrize("reference", ["file-123", "hf://datasets/owner/name"])
def test_file_ids_and_hub_datasets_are_not_paths(tmp_path: Path, reference: str) -> None:
    text = FINE_TUNING.replace("train.jsonl", reference)

    assert read_job_file(write(tmp_path, text), tmp_path).files == ()


def test_labels_are_added_to_the_metadata_of_the_file(tmp_path: Path) -> None:
    submission = read_job_file(write(tmp_path, "metadata: {a: '1'}" + EVALUATION_YAML), tmp_path)

    assert submission.labeled({"b": "2"}).request.metadata == {"a": "1", "b": "2"}
