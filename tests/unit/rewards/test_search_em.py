"""Exact match as in Search-R1."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rewards.rules import normalize
from tests.support.rewards import failure, score, trajectory

SEARCH = {"type": "search_em"}


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("<answer>The  Beatles!</answer>", "beatles"),
        ("<answer>\nparis\n</answer>", "Paris, the"),
        ("<answer>Rome</answer> or rather <answer>Paris</answer>", "paris"),
        ("It is \\boxed{an U.S. city}", "us city"),
        ("\\boxed{Rome} <answer>Paris</answer> \\boxed{Oslo}", "Paris"),
        ("<answer>A</answer>", "a"),
        ("<answer>%</answer>", "%"),
    ],
)
def test_answers_are_compared_after_normalization(text: str, gold: str) -> None:
    assert score(trajectory(text, gold=["Athens", gold]), SEARCH) == 1.0


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("Paris", "Paris"),
        ("<answer>Paris", "Paris"),
        ("<answer>Paris or Rome</answer>", "Paris"),
        ("<answer></answer>", "A"),
        ("<answer>the</answer>", "%"),
        ("<think>maybe <answer>Lima</answer> but wait", "Lima"),
        ("<think><answer>Lima</answer></think> I do not know.", "Lima"),
    ],
)
def test_other_texts_score_zero(text: str, gold: str) -> None:
    assert score(trajectory(text, gold=[gold]), SEARCH) == 0.0


def test_a_wrong_answer_in_tags_gets_the_format_score() -> None:
    reward = SEARCH | {"format_score": 0.1}

    assert score(trajectory("<answer>Rome</answer>", gold=["Paris"]), reward) == 0.1
    assert score(trajectory("Rome", gold=["Paris"]), reward) == 0.0


def test_retrieved_text_is_not_an_answer() -> None:
    sample = trajectory("search", "no", gold=["Paris"], replies=["<answer>Paris</answer>"])

    assert score(sample, SEARCH) == 0.0


def test_a_row_without_an_answer_cannot_be_rewarded() -> None:
    assert "gold" in failure(trajectory("<answer>x</answer>", gold=[]), SEARCH)


@given(st.text(alphabet=string.printable, max_size=60))
def test_normalization_is_idempotent(text: str) -> None:
    once = normalize(text)

    assert normalize(once) == once
    assert not set(once) & set(string.punctuation)
