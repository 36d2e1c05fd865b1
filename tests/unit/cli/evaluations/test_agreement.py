"""``temper metrics agreement``: how far a judge's labels match human ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from temper.cli.main import main


def write(path: Path, rows: list[Any]) -> str:
    """Write rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def run(tmp_path: Path, labels: list[Any], predictions: list[Any], *options: str) -> int:
    files = write(tmp_path / "labels", labels), write(tmp_path / "predictions", predictions)
    return main(["metrics", "agreement", "--labels", files[0], "--predictions", files[1], *options])


def test_records_and_plain_labels_are_compared_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = [{"label": "A"}, {"label": "B"}, {"label": "A"}, {"label": "B"}]

    assert run(tmp_path, labels, ["A", "B", "B", None], "--json") == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["items"], found["left_out"]) == (3, 1)
    assert found["kappa"] == pytest.approx(0.4)
    assert {"label": "A", "prediction": "B", "items": 1} in found["pairs"]


def test_the_table_lists_only_disagreements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ["good", "good", "bad"], ["good", "poor", "bad"]) == 0

    shown = capsys.readouterr().out
    assert "kappa: 0.5" in shown
    assert "poor" in shown
    assert "bad" not in shown


@pytest.mark.parametrize(
    ("labels", "predictions", "message"),
    [
        (["a"], ["a", "b"], "1 labels but 2 predictions"),
        ([{"score": 1}], ["a"], "row 0 has no field label"),
        ([0.5], ["a"], "row 0: a label is"),
        ([None], ["a"], "no items with two labels"),
    ],
)
def test_unreadable_labels_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    labels: list[Any],
    predictions: list[Any],
    message: str,
) -> None:
    assert run(tmp_path, labels, predictions) != 0
    assert message in capsys.readouterr().err.replace("\n", " ")
