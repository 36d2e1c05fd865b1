"""Sources of one training file are drawn by their weights."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest
from services.trainer.rl.prompts import CYCLE, PromptSampler, WeightedSources, order_of, read_row

ROWS = [*["math"] * 50, *["shop"] * 3, None, "other"]


def test_sources_are_drawn_by_their_weights() -> None:
    order = WeightedSources(ROWS, {"math": 1, "shop": 3}, 0)
    drawn = [ROWS[order.row(draw)] for draw in range(2 * CYCLE)]

    assert Counter(drawn) == {"math": CYCLE // 2, "shop": 3 * CYCLE // 2}
    for start in range(0, 2 * CYCLE, 8):  # in every batch
        assert 5 <= Counter(drawn[start : start + 8])["shop"] <= 7
    assert order.rows == 53


@given(st.integers(0, 2**31 - 1), st.floats(0.01, 100.0))
def test_every_row_of_a_source_is_drawn_once_an_epoch(seed: int, weight: float) -> None:
    order = WeightedSources(ROWS, {"math": 1, "shop": weight}, seed)
    rows = [order.row(draw) for draw in range(3000)]
    for name, size in (("math", 50), ("shop", 3)):
        own = [row for row in rows if ROWS[row] == name]
        for start in range(0, len(own) - size, size):
            assert len(set(own[start : start + size])) == size
    # A draw is the same after a restart, whatever was drawn before.
    again = WeightedSources(ROWS, {"math": 1, "shop": weight}, seed)
    assert [again.row(draw) for draw in (2999, 0, 17)] == [rows[2999], rows[0], rows[17]]


def test_a_weight_without_rows_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no row of the training file has the source 'chess'"):
        WeightedSources(ROWS, {"math": 1, "chess": 1}, 0)


def test_a_sampler_draws_only_sources_with_a_weight() -> None:
    rows = [
        read_row({"question": f"q{n}", "data_source": source}, n, "plain")
        for n, source in enumerate(ROWS)
    ]
    order = order_of(rows, 0, {"shop": 1})
    sampler = PromptSampler(rows, 0, lambda _: 1, 8, order=order)

    assert {sampler.next().prompt.extra["data_source"] for _ in range(20)} == {"shop"}
