"""Matching of outputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.sandbox_cases import Match
from services.sandbox.runs.cases import matches


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
@pytest.mark.parametrize("rule", list(Match))
def test_other_differences_count(stdout: bytes, expected: str, rule: Match) -> None:
    assert not matches(stdout, expected, rule)


@given(st.text())
def test_expected_output_matches(text: str) -> None:
    for rule in Match:
        assert matches(text.encode(), text, rule)
