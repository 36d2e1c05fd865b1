"""Text similarity metrics."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rewards.openai_graders import TextSimilarityGrader
from services.rewards.graders.text import similarity
from tests.support.rewards import failure, score, trajectory

METRICS = get_args(TextSimilarityGrader.model_fields["evaluation_metric"].annotation)
TEXTS = st.text(alphabet="ab c.", max_size=30)


@pytest.mark.parametrize("metric", METRICS)
@given(given=TEXTS, reference=TEXTS)
def test_every_metric_is_between_0_and_1(metric: str, given: str, reference: str) -> None:
    assert 0.0 <= similarity(metric, given, reference) <= 1.0


@pytest.mark.parametrize("metric", METRICS)
def test_equal_texts_have_the_highest_similarity(metric: str) -> None:
    text = "the quick brown fox jumps over the lazy dog"

    # METEOR applies its fragmentation penalty even to a single chunk.
    lowest = 1 - 0.5 / 9**3 if metric == "meteor" else 1.0
    assert similarity(metric, text, text) == pytest.approx(lowest)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("text", ["", "?!", "one two three"])
def test_texts_without_a_common_word_have_zero_similarity(metric: str, text: str) -> None:
    if metric == "fuzzy_match":  # of characters, not words
        assert similarity(metric, "aaa", "bbb") == 0.0
    else:
        assert similarity(metric, text, "four five six seven eight") == 0.0


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("rouge_1", 2 * 4 / (5 + 6)),  # the, cat, on, mat
        ("rouge_2", 2 * 1 / (4 + 5)),  # the cat
        ("rouge_3", 0.0),
        ("rouge_l", 2 * 4 / (5 + 6)),  # the cat on mat
        ("gleu", 5 / (6 + 5 + 4 + 3)),
        ("bleu", math.exp(1 - 6 / 5) * (4 / 5 * 1 / 4 * 0.5 / 3 * 0.25 / 2) ** 0.25),
        # Four matches in three chunks: "the cat", "on", "mat".
        ("meteor", (0.8 * 4 / 6) / (0.9 * 0.8 + 0.1 * 4 / 6) * (1 - 0.5 * (3 / 4) ** 3)),
    ],
)
def test_metrics_have_their_published_values(metric: str, expected: float) -> None:
    given, reference = "The cat lay on mat.", "the cat sat on the mat"

    assert similarity(metric, given, reference) == pytest.approx(expected)


def test_meteor_matches_word_stems() -> None:
    assert similarity("meteor", "cats sleeping", "cat sleeps") == pytest.approx(1 - 0.5 / 8)


def test_fuzzy_match_is_the_fraction_of_common_characters() -> None:
    assert similarity("fuzzy_match", "kitten", "sitting") == pytest.approx(8 / 13)


def test_texts_come_from_the_row_and_the_sample() -> None:
    grader = {
        "type": "text_similarity",
        "name": "alike",
        "input": "{{ sample.output_text }}",
        "reference": "{{ item.gold }}",
        "evaluation_metric": "rouge_1",
    }

    assert score(trajectory("a b c d", gold=["a b"]), grader) == pytest.approx(2 * 2 / (4 + 2))
    assert "100000 characters" in failure(trajectory("x" * 100_001), grader)
