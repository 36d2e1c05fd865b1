"""Rows as training reads them, in a terminal."""

from services.contracts.data.file_rows import ExampleRow, TrainingExample
from temper.cli.data.example_text import example_lines

EXAMPLE = TrainingExample(
    part="answer",
    token_ids=[7, 151645],
    texts=["\n\u202e\x1b", "<|im_end|>"],
    mask=[0, 1],
    cut_tokens=3,
)


def test_each_token_is_a_line_with_its_mask() -> None:
    row = ExampleRow(id="2", row=2, label=False, examples=[EXAMPLE])

    assert list(example_lines(row)) == [
        "row 2 (undesirable)",
        "  answer: 2 tokens, 1 with a loss, 3 cut off",
        r'  0      7 "\n\u202e\u001b"',
        '  1 151645 "<|im_end|>"',
    ]


def test_a_row_without_examples_shows_the_reason() -> None:
    row = ExampleRow(id="1", row=1, problem="messages is \x1b[2J empty")

    assert list(example_lines(row)) == [r"row 1: messages is \x1b[2J empty"]
