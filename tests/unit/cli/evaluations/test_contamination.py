"""``temper metrics contamination``: benchmark items that occur in a training file."""

import json
from pathlib import Path
from typing import Any

import pytest

from temper.cli.main import main

QUESTION = "A farmer has twelve hens and each of them lays five eggs a week; how many in a month?"
TRAINING = [
    {"messages": [{"role": "user", "content": f"Solve: {QUESTION}"}]},
    {"messages": [{"role": "user", "content": "What is the capital of Peru?"}]},
    {"messages": [{"role": "user", "content": QUESTION.upper()}]},
]


def write(path: Path, rows: list[Any]) -> str:
    """Write rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def run(training: str, benchmark: str, *options: str) -> int:
    return main(
        ["metrics", "contamination", "--training", training, "--benchmark", benchmark, *options]
    )


@pytest.mark.parametrize(
    "row",
    [
        {"question": QUESTION, "answer": "240"},
        {"problem": QUESTION},
        {
            "prompt": [
                {"role": "system", "content": "Count."},
                {"role": "user", "content": QUESTION},
            ]
        },
    ],
)
def test_items_are_found_verbatim_and_within_other_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: dict[str, Any]
) -> None:
    benchmark = write(tmp_path / "benchmark", [{"question": "Who wrote Emma?"}, row])
    assert run(write(tmp_path / "training", TRAINING), benchmark, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        **{"n": 13, "items": 2, "rows": 3, "contaminated_rows": 2},
        "found": [{"item": 1, "rows": 2, "exact": 1, "first_rows": [0, 2]}],
    }


def test_the_table_names_the_items_and_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = tmp_path / "training.json"
    training.write_text(json.dumps(TRAINING))
    assert run(str(training), write(tmp_path / "benchmark", [{"question": QUESTION}])) == 0
    shown = capsys.readouterr().out
    assert "1 of 1 items are in 2 of 3 training rows" in shown
    assert "0, 2" in shown
    assert "A farmer has twelve hens" in shown


def test_a_clean_file_has_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = write(tmp_path / "benchmark", [{"text": "Who wrote Emma?"}])
    assert run(write(tmp_path / "training", TRAINING), benchmark, "--field", "text") == 0
    assert capsys.readouterr().out.strip() == "0 of 1 items are in 0 of 3 training rows"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "benchmark: no rows"),
        ([{"question": "a"}, {"text": "b"}], "benchmark: row 1 has none of the fields messages"),
        ([{"prompt": 3}], "benchmark: row 0: the question is neither text nor messages"),
        (["a"], "benchmark: row 0 has none of the fields"),
    ],
)
def test_an_unusable_benchmark_is_reported_with_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[Any], message: str
) -> None:
    training = write(tmp_path / "training", TRAINING)
    assert run(training, write(tmp_path / "benchmark", rows)) != 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": ', "is not JSON"),
        ('{"text": ' + "9" * 5000 + "}", "cannot be parsed"),
        ("[" * 100_000, "cannot be parsed"),
    ],
)
def test_a_broken_training_row_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, message: str
) -> None:
    training = tmp_path / "training"
    training.write_text(f'{{"text": "a"}}\n\n{row}\n')
    assert run(str(training), write(tmp_path / "benchmark", [{"question": "a"}])) != 0
    assert f"training: line 3 {message}" in capsys.readouterr().err
