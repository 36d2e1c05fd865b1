"""Extracts with the words of a query marked."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.store.highlights import highlight
from services.retrieval.store.tokens import Analyzer

ENGLISH = Analyzer("english")


def test_inflected_words_are_highlighted() -> None:
    found = highlight(ENGLISH, "running DOGS", "The dog ran; dogs run.")

    assert found == ["The <em>dog</em> ran; <em>dogs</em> <em>run</em>."]


def test_adjacent_cjk_matches_are_one_highlight() -> None:
    assert highlight(ENGLISH, "机器学习", "这是机器学习的书") == ["这是<em>机器学习</em>的书"]


def test_highlights_survive_length_changing_normalization() -> None:
    assert highlight(ENGLISH, "dog", "ﬁne ﬃ İstanbul dog") == ["ﬁne ﬃ İstanbul <em>dog</em>"]


def test_html_in_passages_is_escaped() -> None:
    found = highlight(ENGLISH, "script", "<script>alert('a & b')</script>")

    assert found == ["&lt;<em>script</em>&gt;alert('a &amp; b')&lt;/<em>script</em>&gt;"]


def test_the_most_relevant_extracts_come_first() -> None:
    text = "filler " * 100 + "the quick fox " + "filler " * 100 + "a fox " + "filler " * 100

    found = highlight(ENGLISH, "quick fox", text, extracts=2, width=60)

    assert "<em>quick</em> <em>fox</em>" in found[0]
    assert "a <em>fox</em>" in found[1]
    assert all(len(piece) < 100 for piece in found)


def test_a_passage_without_query_words_has_no_extracts() -> None:
    assert highlight(ENGLISH, "cat", "The dog ran.") == []


WORDS = st.text("ab ß機器\u0301<&İ", max_size=60)


@given(WORDS, WORDS)
def test_extracts_are_substrings_of_the_text(query: str, text: str) -> None:
    for extract in highlight(ENGLISH, query, text, width=20):
        bare = html.unescape(re.sub("</?em>", "", extract))
        assert bare in text
        assert "<em>" in extract
