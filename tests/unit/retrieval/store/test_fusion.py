"""One ranking from two."""

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.query import Fusion, Part, fuse

BM25, DENSE = IndexMode.BM25, IndexMode.DENSE

rankings = st.lists(st.integers(0, 30), unique=True, max_size=20).map(
    lambda numbers: [(number, 1.0 / (place + 1)) for place, number in enumerate(numbers)]
)


def test_passages_in_both_rankings_come_first() -> None:
    fused = fuse({BM25: [(1, 9.0), (2, 8.0)], DENSE: [(3, 0.9), (2, 0.8)]}, Fusion(), 3)

    assert [one.number for one in fused] == [2, 1, 3]
    assert fused[0].score == 2 / 62
    assert fused[0].parts == (Part(BM25, 2, 8.0), Part(DENSE, 2, 0.8))


def test_fusion_returns_at_most_topk() -> None:
    assert len(fuse({BM25: [(1, 2.0), (2, 1.0)]}, Fusion(), 1)) == 1


@given(rankings, rankings, st.integers(1, 40))
def test_a_passage_scores_the_sum_of_reciprocal_ranks(
    words: list[tuple[int, float]], vectors: list[tuple[int, float]], topk: int
) -> None:
    fused = fuse({BM25: words, DENSE: vectors}, Fusion(constant=10), topk)

    expected: dict[int, float] = {}
    for ranking in (words, vectors):
        for rank, (number, _) in enumerate(ranking, start=1):
            expected[number] = expected.get(number, 0.0) + 1 / (10 + rank)
    assert [one.score for one in fused] == sorted(expected.values(), reverse=True)[:topk]
    assert all(one.score == expected[one.number] for one in fused)


@given(rankings, rankings)
def test_raw_scores_do_not_affect_fusion(
    words: list[tuple[int, float]], vectors: list[tuple[int, float]]
) -> None:
    louder = [(number, score * 1000) for number, score in words]

    one = fuse({BM25: words, DENSE: vectors}, Fusion(), 40)
    other = fuse({BM25: louder, DENSE: vectors}, Fusion(), 40)

    assert [each.number for each in one] == [each.number for each in other]
