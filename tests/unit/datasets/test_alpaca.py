"""Alpaca rows: what is accepted, and the path that an error names."""

from typing import Any

import pytest

from services.datasets.formats import read_alpaca
from services.datasets.record import RowError

ROW = {
    "instruction": "Add",
    "input": "1 and 1",
    "output": "2",
    "system": "Be brief.",
    "history": [["Hello", "Hi"]],
}


def test_a_row_becomes_a_conversation() -> None:
    example = read_alpaca(dict(ROW))
    assert example.turns == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "Add\n1 and 1"),
        ("assistant", "2"),
    ]
    assert example.answers == 2


def test_all_fields_except_instruction_and_output_are_optional() -> None:
    example = read_alpaca({"instruction": "Add", "input": None, "output": "", "history": None})
    assert example.turns == [("user", "Add"), ("assistant", "")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instruction": None}, "instruction is missing"),
        ({"instruction": "", "input": ""}, "instruction and input are both empty"),
        ({"output": None}, "output is missing"),
        ({"output": ["a", "b"]}, "output is a list, not a string"),
        ({"input": 3}, "input is 3, not a string"),
        ({"history": "x"}, "history is 'x', not a list of pairs"),
        ({"history": [["a", "b"], ["c"]]}, "history[1] is a list, not a pair"),
        ({"history": [["a", None]]}, "history[0][1] is missing"),
    ],
)
def test_an_error_names_the_path(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError) as caught:
        read_alpaca({**ROW, **change})
    assert caught.value.message.startswith(message)
