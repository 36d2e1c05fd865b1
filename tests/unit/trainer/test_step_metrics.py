"""The CSV of metrics by step that OpenAI's clients read."""

import csv
import json
from pathlib import Path

from services.core.process.reporter import METRICS
from services.trainer.step_metrics import STEP_METRICS, write_step_metrics


def rows_of(folder: Path, *metrics: object) -> list[dict[str, str]]:
    text = "".join(each if isinstance(each, str) else f"{json.dumps(each)}\n" for each in metrics)
    (folder / METRICS).write_text(text)
    write_step_metrics(folder)
    with (folder / STEP_METRICS).open(newline="") as file:
        return list(csv.DictReader(file))


def test_training_and_validation_of_a_step_share_a_row(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        {"step": 1, "loss": 2.5, "learning_rate": 0.1},
        {"step": 2, "loss": 2.0},
        {"step": 2, "eval_loss": 2.25, "eval_accuracy": 0.5},
    )

    empty = {"train_accuracy": "", "valid_loss": "", "valid_mean_token_accuracy": ""}
    assert rows == [
        {"step": "1", "train_loss": "2.5", **empty},
        {
            "step": "2",
            "train_loss": "2.0",
            "train_accuracy": "",
            "valid_loss": "2.25",
            "valid_mean_token_accuracy": "0.5",
        },
    ]


def test_a_step_that_a_later_attempt_repeats_has_its_last_value(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path, {"step": 3, "loss": 9.0}, '{"step": 4, "lo\n', {"step": 3, "loss": 1.0}
    )

    assert [(row["step"], row["train_loss"]) for row in rows] == [("3", "1.0")]


def test_pairs_that_are_ranked_right_are_the_training_accuracy(tmp_path: Path) -> None:
    [row] = rows_of(tmp_path, {"step": 1, "loss": None, "rewards/accuracies": 0.75})

    assert (row["train_loss"], row["train_accuracy"]) == ("", "0.75")


def test_a_job_without_metrics_has_an_empty_table(tmp_path: Path) -> None:
    write_step_metrics(tmp_path)

    assert (tmp_path / STEP_METRICS).read_text().strip() == (
        "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy"
    )


def test_further_metrics_of_evaluations_are_columns_after_those_of_openai(tmp_path: Path) -> None:
    (row,) = rows_of(
        tmp_path, {"step": 1, "eval_loss": 2.0, "eval_rouge-1": 0.5, "eval_rewards/chosen": 1.0}
    )

    assert list(row)[-2:] == ["valid_mean_token_accuracy", "valid_rouge-1"]
    assert (row["valid_loss"], row["valid_rouge-1"]) == ("2.0", "0.5")
