"""Matching of outputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.sandbox.cases import Match
from services.sandbox.runs.comparison import matches


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (b"3\n", "3"),
        (b"3", "3\n\n"),
        (b"1 2 \n3\t\n", "1 2\n3"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"", "\n  \n"),
        ("é\n".encode(), "é"),
    ],
)
def test_whitespace_at_line_ends_is_ignored(stdout: bytes, expected: str) -> None:
    assert matches(stdout, expected, Match.LINES)
    assert not matches(stdout, expected, Match.EXACT)


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (b"3", "4"),
        (b" 3", "3"),
        (b"\n3", "3"),
        (b"1  2", "1 2"),
        (b"a\n\nb", "a\nb"),
        (b"A", "a"),
        (b"3.0", "3"),
        (b"\xff", "\ufffd"),
    ],
)
@pytest.mark.parametrize("rule", [Match.LINES, Match.EXACT])
def test_other_differences_count(stdout: bytes, expected: str, rule: Match) -> None:
    assert not matches(stdout, expected, rule)


@given(st.text())
def test_expected_output_matches(text: str) -> None:
    for rule in Match:
        assert matches(text.encode(), text, rule)


_NUMBERS = st.sampled_from(
    ["sNaN", "-snan7", "NaN", "Infinity", "-inf", "1e400", "-2e999999999", "1" + "0" * 400]
)
_WORDS = st.lists(st.text() | _NUMBERS | st.floats().map(repr) | st.integers().map(str))
_TEXTS = st.text() | _NUMBERS | _WORDS.map(" ".join)


@given(_TEXTS, _TEXTS, st.sampled_from(Match), st.sampled_from([0.0, 1e-6, 1.0]))
def test_any_output_matches_or_not(
    printed: str, expected: str, rule: Match, tolerance: float
) -> None:
    assert matches(printed.encode(), expected, rule, tolerance) in {True, False}


@given(st.binary(), _TEXTS, st.sampled_from(Match))
def test_any_bytes_match_or_not(printed: bytes, expected: str, rule: Match) -> None:
    assert matches(printed, expected, rule) in {True, False}


@pytest.mark.parametrize("word", ["sNaN", "-sNaN1", "NaN", "Infinity", "-inf", "1e400"])
def test_what_is_no_finite_number_matches_only_itself(word: str) -> None:
    assert matches(f"{word} 1".encode(), f"{word} 1.0", Match.NUMBERS, 0.1)
    for other in ("4", "nan", "inf", "2e400"):
        assert not matches(word.encode(), other, Match.NUMBERS, 0.1)


@pytest.mark.parametrize(
    ("stdout", "tolerance", "expected"),
    [
        (b"1.50 a\n2", 0.0, True),
        (b"1.5  a \n2.0\n\n", 0.0, True),
        (b"1.51 a\n2", 0.0, False),
        (b"1.51 a\n2", 0.1, True),
        (b"1.5 b\n2", 0.1, False),
        (b"1.5 a 2", 0.1, False),
        (b"nan a\n2", 0.1, False),
        (b"\xff a\n2", 0.1, False),
    ],
)
def test_numbers_in_lines_are_equal_by_value(
    stdout: bytes, tolerance: float, expected: bool
) -> None:
    assert matches(stdout, "1.5 a\n2\n", Match.NUMBERS, tolerance) is expected


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (b'{"a": [1.0, null, "x"]}', True),
        (b'{"a": [true, null, "x"]}', False),
        (b'{"a": [1, null, "x", 2]}', False),
        (b'{"b": [1, null, "x"]}', False),
        (b'{"a": [1, false, "x"]}', False),
        (b"[" * 100_000, False),
    ],
)
def test_json_is_equal_by_value(stdout: bytes, expected: bool) -> None:
    assert matches(stdout, '{"a": [1, null, "x"]}', Match.JSON) is expected
