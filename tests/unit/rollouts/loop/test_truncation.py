"""Truncation of long tool replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rollouts.multi_turn import TruncateSide
from services.rollouts.loop import truncated

SIDES = st.sampled_from(TruncateSide)


@pytest.mark.parametrize(
    ("side", "limit", "expected"),
    [
        (TruncateSide.LEFT, 4, "0123...(truncated)"),
        (TruncateSide.RIGHT, 4, "(truncated)...6789"),
        (TruncateSide.MIDDLE, 4, "01...(truncated)...89"),
        (TruncateSide.MIDDLE, 5, "01...(truncated)...89"),
        (TruncateSide.MIDDLE, 1, "...(truncated)..."),
    ],
)
def test_truncation_keeps_the_chosen_side_and_marks_the_cut(
    side: TruncateSide, limit: int, expected: str
) -> None:
    assert truncated("0123456789", limit, side) == expected


@given(st.text(), st.integers(1, 50), SIDES)
def test_only_a_reply_over_the_limit_is_truncated(
    text: str, limit: int, side: TruncateSide
) -> None:
    cut = truncated(text, limit, side)
    if len(text) <= limit:
        assert cut == text
    else:
        kept = cut.replace("...(truncated)...", "", 1)
        kept = kept.replace("...(truncated)", "", 1).replace("(truncated)...", "", 1)
        assert len(kept) == (2 * (limit // 2) if side is TruncateSide.MIDDLE else limit)
