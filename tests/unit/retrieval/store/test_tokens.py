"""How texts become tokens."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.store.tokens import MAX_TOKEN, Analyzer

ENGLISH = Analyzer("english")
PLAIN = Analyzer(None)


def shared(query: str, passage: str, analyzer: Analyzer = ENGLISH) -> set[str]:
    return set(analyzer.query_tokens(query)) & set(analyzer.tokens(passage))


@pytest.mark.parametrize(
    ("query", "passage"),
    [
        ("running dogs", "A dog runs."),
        ("\uff26\uff35\uff2c\uff2c \uff57\uff49\uff44\uff54\uff48", "full width"),
        ("STRASSE", "straße"),
        ("ﬁne", "fine"),
        ("cafe\u0301", "caf\u00e9"),
        ("read text", "Path.read_text"),
        ("学习", "机器学习是人工智能的一个分支"),
        ("龙", "飞龙在天"),
        ("東京", "東京都は日本の首都"),
        ("カタカナ", "ｶﾀｶﾅで書く"),
        ("한국", "한국어 문서"),
        ("ภาษา", "ภาษาไทยไม่เว้นวรรค"),
        ("हिन्दी", "हिन्दी में खोज"),
        ("Python 编程", "用Python编程"),
    ],
)
def test_a_passage_is_found_by_its_words(query: str, passage: str) -> None:
    wanted = set(ENGLISH.query_tokens(query))

    assert wanted
    assert shared(query, passage) == wanted


@pytest.mark.parametrize(
    ("query", "passage"),
    [("习机", "机器学习"), ("हिन्दी", "हिन्द"), ("art", "start"), ("", "anything"), ("?!", "?!")],
)
def test_a_passage_is_not_found_by_other_words(query: str, passage: str) -> None:
    assert not shared(query, passage)


def test_words_are_stemmed_by_language() -> None:
    assert shared("Häuser", "Das Haus", Analyzer("german"))
    assert shared("книги", "книга", Analyzer("russian"))
    assert not shared("dogs", "dog", PLAIN)


def test_an_unknown_language_error_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'klingon' is not one of .*english"):
        Analyzer("klingon")


def test_a_very_long_word_is_found_by_its_prefix() -> None:
    assert ENGLISH.tokens("x" * 100_000) == ["x" * MAX_TOKEN]


@given(st.text())
def test_tokens_contain_no_whitespace(text: str) -> None:
    tokens = ENGLISH.tokens(text)

    assert " ".join(tokens).split() == tokens
    assert all(0 < len(token) <= MAX_TOKEN for token in tokens)


@given(st.text())
def test_query_tokens_are_a_subset_of_passage_tokens(text: str) -> None:
    assert set(ENGLISH.query_tokens(text)) <= set(ENGLISH.tokens(text))


@given(st.text(st.characters(exclude_categories=["Cs", "Cn"])))
def test_spans_locate_their_tokens(text: str) -> None:
    spans = ENGLISH.spans(text)

    assert Counter(span.token for span in spans) == Counter(ENGLISH.tokens(text))
    for span in spans:
        assert 0 <= span.start < span.end <= len(text)
        assert span.token in ENGLISH.tokens(text[span.start : span.end])
