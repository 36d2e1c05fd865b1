"""The corpora of tests and benchmarks have their documented properties."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpora import debian, manuals, synthetic, vectors, wordnet
from tests.support.corpora.passage import CorpusMissing, Passage
from tests.support.corpora.queries import heading_queries

SOURCES = [debian.passages, wordnet.passages, manuals.passages]


@pytest.mark.parametrize("source", SOURCES, ids=["debian", "wordnet", "manuals"])
def test_passages_have_unique_ids_and_text_without_markup(
    source: Callable[[], Iterator[Passage]],
) -> None:
    try:
        passages = list(islice(source(), 2000))
    except CorpusMissing as error:
        pytest.skip(str(error))

    assert len({passage.id for passage in passages}) == len(passages) == 2000
    marked = re.compile(r"\\f[BIRP]|^\.[A-Z]{2}\b|^ \.$|@ \d{8} ", re.MULTILINE)
    # A formatter's manual shows markup.
    assert sum(bool(marked.search(passage.text)) for passage in passages) < 10
    assert sum(bool(passage.heading) for passage in passages) > 50


def test_passages_of_one_heading_answer_it_together() -> None:
    passages = [
        Passage(str(number), "", "text", heading)
        for number, heading in enumerate(["a", "b", "a", ""])
    ]

    answers = {query.text: query.relevant for query in heading_queries(passages, 10)}

    assert answers == {"a": {"0", "2"}, "b": {"1"}}


@settings(max_examples=10, deadline=None)
@given(start=st.integers(0, 3000), count=st.integers(1, 300))
def test_any_slice_of_the_synthetic_passages_can_be_generated_alone(start: int, count: int) -> None:
    whole = islice(synthetic.texts(3400), start, start + count)

    assert list(synthetic.texts(count, start)) == list(whole)


def test_words_are_as_frequent_as_those_of_a_language() -> None:
    words = Counter(word for _, text in synthetic.texts(5000) for word in text.split())
    counts = [count for _, count in words.most_common()]

    assert 0.02 < counts[0] / words.total() < 0.1
    assert 5 < counts[9] / counts[99] < 15
    assert sum(count == 1 for count in counts) > 0.3 * len(counts)


def test_questions_are_different_and_of_words_that_there_are() -> None:
    questions = synthetic.questions(500, of=3000)
    words = {word for _, text in synthetic.texts(3072) for word in text.split()}

    assert len(set(questions)) == 500
    assert {word for question in questions for word in question.split()} <= words


def test_the_nearest_vectors_are_those_with_the_greatest_cosines() -> None:
    asked = vectors.questions(20)
    known = np.vstack(list(vectors.vectors(9000)))

    found = vectors.nearest(asked, 9000, k=7)

    assert known.shape == (9000, vectors.DIMENSION)
    np.testing.assert_allclose(np.linalg.norm(known, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(found, np.argsort(-(asked @ known.T), axis=1)[:, :7])
