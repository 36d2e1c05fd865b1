"""Graders that compare the meaning or the words of an answer with the gold."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rewards.graders import MathGrader, TokenF1Grader
from services.core.operator_environment import OperatorEnvironment
from services.rewards.factory import RewardFactory
from services.rewards.graders.meaning import normal_box, token_f1
from services.rewards.interface import Sample, Score
from services.rewards.mathematics.expressions import are_equal

WORDS = st.lists(st.sampled_from("abcd"), max_size=6)


def scores(grader: MathGrader | TokenF1Grader, cases: Sequence[tuple[str, str]]) -> list[Score]:
    """The scores of pairs of an answer and its gold."""

    async def run() -> list[Score]:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(OperatorEnvironment(attempts=1), stack)
            component = await factory.component(grader, "grader")
            samples = [Sample.of_answer(answer, gold=[gold]) for answer, gold in cases]
            return [await component.score(sample) for sample in samples]

    return asyncio.run(run())


def test_the_last_box_is_compared_by_its_meaning() -> None:
    right = [
        ("first \\boxed{3}, no: \\boxed{0.5}", "1/2"),
        ("<think>\\boxed{1}</think>\\boxed{\\frac12}", "so it is \\boxed{\\frac{2}{4}}"),
        ("\\boxed{x+1}", "1 + x"),
        ("$\\boxed{(2,2)} \\text{ and } \\boxed{(6,2)}$", "(6,2), (2,2)"),
        ("\\fbox{x^2+y^2=25}", "x^2+y^2-25=0"),
    ]
    wrong = [
        ("\\boxed{0.5}, no: \\boxed{3}", "1/2"),
        ("\\boxed{81 + 535}", "616"),
        ("\\boxed{9^{9^{9^9}}}", "1"),
        ("\\boxed{}", "1"),
        ("<think>It is \\boxed{1}", "1"),
        ("$\\boxed{(2,2)} \\text{ and } \\boxed{(6,2)}$", "(6,2)"),
        ("\\boxed{x^2+y^2=16}", "x^2+y^2-25=0"),
    ]

    found = scores(MathGrader(), [*right, *wrong, ("0.5", "1/2")])

    assert [score.value for score in found] == [1.0] * len(right) + [0.0] * (len(wrong) + 1)
    assert found[0].extracted == "0.5"
    assert found[-1].extracted is None, "an answer without a box is unparsable"


@pytest.mark.parametrize(
    ("boxes", "are_one"),
    [
        (["\\frac{1}{2}", "0.5", "1/2", "\\dfrac12", " .50"], True),
        (["5", "5.0", "\\text{5}"], True),
        (["x = 5", "x = 5.0", "x=\\frac{10}{2}"], True),
        (["1, 2", "2,1"], True),
        (["x = 1, y = 2", "y=2, x=1.0"], True),
        (["Yes", "yes.", "\\text{ YES }"], True),
        (["10\\text{ cm}", "10 centimeters"], True),
        (["x+1", "x + 1", "x  +1"], True),
        (["1,000", "1000", "1{,}000"], True),
        (["(1, 2)", "(2, 1)"], False),
        (["x = 1, y = 2", "x = 2, y = 1"], False),
        (["x = 3", "y = 3"], False),
        (["12", "1 2"], False),
        (["\\pi r", "\\pir"], False),
        (["cats, dogs", "dogs, cats"], False),
        (["10\\text{ cm}", "10\\text{ m}"], False),
        (["5\\%", "5"], False),
        (["0.333", "\\frac13"], False),
    ],
)
def test_boxes_vote_together_if_they_are_plainly_equal(boxes: list[str], are_one: bool) -> None:
    assert (len(set(map(normal_box, boxes))) == 1) is are_one
    assert normal_box("1, 2", ordered=True) != normal_box("2, 1", ordered=True)


PARTS = st.sampled_from(
    [
        *("1", "2", "2.0", "1 2", "x=1", "y=1", "x = 2", "x", "y", "xy", "x y", "\\pi x", "x+1"),
        *("1\\text{ cm}", "1 cm", "1\\text{ m}", "1\\%", "\\frac12", "1/2", "(1,2)", "\\{1,2\\}"),
        *("yes", "Yes", "cats", "x<1", "\\pm 1", "5\\text{ million}", "\\text{no}", "1 or 2"),
    ]
)


@given(st.lists(PARTS, min_size=1, max_size=3), st.lists(PARTS, min_size=1, max_size=3))
def test_boxes_that_vote_together_are_equal(one: list[str], other: list[str]) -> None:
    for boxes in ((", ".join(one), ", ".join(other)), (", ".join(one), ", ".join(one[::-1]))):
        if normal_box(boxes[0]) == normal_box(boxes[1]):
            assert boxes[0] == boxes[1] or are_equal(*boxes)


def test_the_order_of_a_list_matters_by_option() -> None:
    case = [("\\boxed{2, 1}", "1, 2")]
    assert scores(MathGrader(), case)[0].value == 1.0
    assert scores(MathGrader(ordered=True), case)[0].value == 0.0


def test_words_are_compared_as_squad_does() -> None:
    cases = [
        ("The Eiffel Tower!", "eiffel tower"),
        ("Eiffel Tower in Paris", "the tower of Eiffel"),
        ("Rome", "Paris"),
        ("", "Paris"),
        ("the", "a"),
    ]
    found = [score.value for score in scores(TokenF1Grader(), cases)]
    # 2 common words; 4 and 3 words in all: 2 * 2 / 7.
    assert found == pytest.approx([1.0, 4 / 7, 0.0, 0.0, 1.0])


def test_an_empty_answer_is_right_for_an_empty_gold_alone() -> None:
    cases = [("", "A"), (" \n", "%"), ("<think>A", "A"), ("", ""), ("a", "A")]
    found = [score.value for score in scores(TokenF1Grader(), cases)]
    assert found == [0.0, 0.0, 0.0, 1.0, 1.0]


@given(WORDS, WORDS)
def test_f1_is_a_symmetric_share(left: list[str], right: list[str]) -> None:
    value = token_f1(left, right)
    assert 0.0 <= value <= 1.0
    assert value == token_f1(right, left) == token_f1(left[::-1], right)
    assert (value == 1.0) == (sorted(left) == sorted(right))
