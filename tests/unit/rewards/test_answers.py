"""Boxes and answer tags are found in any text, in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rewards.answers.boxes import last_answer, last_box, last_boxes
from services.rewards.interface import without_turn_end

LATEX = st.text(alphabet="ab{}\\ \n", max_size=40)


def balanced(text: str) -> bool:
    depth = 0
    for brace in text:
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0


@given(before=LATEX, content=st.text(alphabet="ab{} ", max_size=30).filter(balanced))
def test_a_box_is_found_whole_after_any_prefix(before: str, content: str) -> None:
    text = before + " \\boxed{" + content + "}"

    assert last_box([text]) == content


@given(st.lists(LATEX, max_size=4))
def test_a_found_box_is_a_substring_of_the_text(texts: list[str]) -> None:
    box = last_box(texts)

    assert box is None or any("\\boxed{" + box + "}" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\fbox{5}", ["5"]),
        (r"$\boxed 5$.", ["5"]),
        (r"\boxed {5}", ["5"]),
        (r"\boxed -1,234.5.", ["-1,234.5"]),
        (r"\boxed{5} and then \boxed{6", ["5"]),
        (r"$\boxed{(2,2)} \text{ and } \boxed{(6,2)}$", ["(2,2)", "(6,2)"]),
        (r"$\boxed{1}$, $\boxed{2}$ or $\boxed{3}$", ["1", "2", "3"]),
        (r"\boxed{205}, I mean \boxed{204}", ["204"]),
        ("\\boxed{1}\n\nNow: \\boxed{2}", ["2"]),
        (r"\boxed{\text{B}}", [r"\text{B}"]),
        (r"\boxed{1, \fbox{2}}", ["2"]),
        (r"\boxedness{5} \boxed", []),
    ],
)
def test_boxes_in_every_writing(text: str, found: list[str]) -> None:
    assert last_boxes([text, "Done."]) == found


@pytest.mark.parametrize("piece", ["\\boxed{", "<answer>", "{", "</answer>", "<|x", "</s>", "\\"])
def test_a_long_text_of_opening_tags_is_searched_in_linear_time(piece: str) -> None:
    text = piece * 200_000  # a quadratic search would time out

    assert last_box([text, "x"]) is None
    assert last_answer([text, "x"]) is None
    assert without_turn_end(text + "x") == text + "x"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("done<|im_end|>\n", "done"),
        ("done<|eot_id|>", "done"),
        ("done</s>", "done"),
        ("done<end_of_turn>\n<eos>", "done"),
        ("a <|im_end|> b", "a <|im_end|> b"),
        ("</think>", "</think>"),
        (" done ", " done "),
        ("x" * 1000 + "<|im_end|>", "x" * 1000),
    ],
)
def test_only_end_of_turn_tokens_are_stripped(written: str, text: str) -> None:
    assert without_turn_end(written) == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>x</answer></answer>", "x"),
        ("<answer>x</answer> or </answer>", "x"),
        ("<answer>x</answer><answer>y</answer></answer>", "y"),
        ("<answer>x</answer> and <answer>y", "x"),
    ],
)
def test_a_stray_closing_tag_is_not_part_of_the_answer(text: str, answer: str) -> None:
    assert last_answer([text]) == answer
