"""Batching texts by length."""

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.encoder.models.tokenization import by_length, runs

LENGTHS = st.lists(st.integers(1, 300), max_size=80)


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 20))
def test_batches_partition_the_texts_within_the_limits(
    lengths: list[int], max_tokens: int, max_rows: int
) -> None:
    batches = list(by_length(lengths, max_tokens=max_tokens, max_rows=max_rows))

    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[position] for position in batch)
        assert len(batch) <= max_rows
        assert len(batch) * longest <= max_tokens or len(batch) == 1


@given(LENGTHS)
def test_batches_are_sorted_by_length(lengths: list[int]) -> None:
    batches = by_length(lengths, max_tokens=500, max_rows=8)
    ordered = [lengths[position] for batch in batches for position in batch]

    assert ordered == sorted(lengths)


@given(LENGTHS)
def test_runs_encode_the_lengths(lengths: list[int]) -> None:
    found = list(runs(sorted(lengths)))

    assert [length for count, length in found for _ in range(count)] == sorted(lengths)
    assert len({length for _, length in found}) == len(found)
