"""Length statistics of the histogram match those of the sorted list."""

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from services.trainer.offline.rows.lengths import MAX_COUNTED, LengthHistogram


@given(st.lists(st.integers(0, 300), min_size=1), st.integers(0, 300))
def test_statistics_match_the_sorted_list(values: list[int], limit: int) -> None:
    lengths = LengthHistogram()
    for value in values:
        lengths.add(value)
    found = lengths.statistics("tokens", limit)
    assert found is not None
    ordered = sorted(values)
    assert (found.min, found.max, found.total) == (ordered[0], ordered[-1], sum(values))
    assert found.mean == round(statistics.fmean(values), 1)
    assert found.p50 == ordered[math.ceil(0.50 * len(values)) - 1]
    assert found.p95 == ordered[math.ceil(0.95 * len(values)) - 1]
    assert found.truncated == sum(value > limit for value in values)


def test_no_rows_yield_no_statistics() -> None:
    assert LengthHistogram().statistics("tokens", 10) is None


def test_lengths_beyond_the_last_bin_are_counted() -> None:
    lengths = LengthHistogram()
    for value in (1, MAX_COUNTED + 5, MAX_COUNTED + 10):
        lengths.add(value)
    found = lengths.statistics("tokens", 2048)
    assert found is not None
    assert (found.p50, found.max, found.truncated) == (MAX_COUNTED + 10, MAX_COUNTED + 10, 2)
