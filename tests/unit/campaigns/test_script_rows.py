"""The rows of a data script: items of the benchmark are removed wherever they are."""

import json
from pathlib import Path

import pytest

from services.campaigns.script import read_rows
from services.campaigns.signals import StepFailed
from services.metrics.contamination import Contamination

QUESTION = "What is 1 plus 2?"
ITEMS = Contamination([QUESTION, "2 + 2"])
CLEAN = [{"instruction": f"Add {n} to 7.", "input": "", "output": str(n + 7)} for n in range(30)]


def write(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps([*CLEAN, *rows]))
    return path


@pytest.mark.parametrize(
    ("instruction", "context", "output"),
    [
        ("Answer the question.", QUESTION, "3"),
        (f"Q: {QUESTION}", "", "3"),
        ("Solve.", f"Q: {QUESTION}\nA:", "3"),
        ("What is", "1 plus 2?", "3"),
        ("Invent a question.", "", f"Here is one: {QUESTION}"),
        ("Compute.", "Q: 2+2", "4"),
    ],
)
def test_a_row_that_holds_a_short_item_anywhere_is_removed(
    tmp_path: Path, instruction: str, context: str, output: str
) -> None:
    row = {"instruction": instruction, "input": context, "output": output}

    rows = read_rows(write(tmp_path, row), ITEMS)

    assert (len(rows.rows), rows.contaminated) == (len(CLEAN), 1)


def test_data_of_which_many_rows_hold_items_are_refused(tmp_path: Path) -> None:
    leaked = {"instruction": "Answer.", "input": QUESTION, "output": "3"}

    with pytest.raises(StepFailed, match="hold items of the benchmark"):
        read_rows(write(tmp_path, *[leaked] * 4), ITEMS)
