import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.retrieval.quality import mean, ndcg, recall

IDS = st.lists(st.integers(0, 30), unique=True, max_size=20)
SOME = st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=20)
K = st.integers(1, 15)


def test_recall_counts_the_exact_results_found() -> None:
    assert recall(["a", "x", "b"], ["a", "b", "c", "d"], k=4) == 0.5


def test_recall_looks_no_further_than_k() -> None:
    assert recall(["x", "y", "a"], ["a", "b"], k=2) == 0.0


def test_ndcg_of_the_only_relevant_passage_falls_with_its_rank() -> None:
    values = [ndcg(["x"] * rank + ["a"], ["a"]) for rank in range(11)]
    assert values[0] == 1.0
    assert values[1] == pytest.approx(1 / math.log2(3))
    assert values[:10] == sorted(values[:10], reverse=True)
    assert values[10] == 0.0


def test_ndcg_needs_a_relevant_passage() -> None:
    with pytest.raises(ValueError, match="relevant"):
        ndcg(["a"], [])


@given(found=IDS, exact=IDS, k=K)
def test_recall_is_a_fraction_and_ignores_order(found: list[int], exact: list[int], k: int) -> None:
    value = recall(found, exact, k)
    assert 0 <= value <= 1
    assert recall(list(reversed(found[:k])), exact, k) == value


@given(exact=SOME, k=K)
def test_an_exact_search_has_all(exact: list[int], k: int) -> None:
    assert recall(exact, exact, k) == 1.0
    assert ndcg(exact, exact, k) == pytest.approx(1.0)


@given(found=IDS, relevant=SOME, k=K)
def test_ndcg_is_best_with_the_relevant_ones_in_front(
    found: list[int], relevant: list[int], k: int
) -> None:
    in_front = sorted(found, key=lambda passage: passage not in relevant)
    assert 0 <= ndcg(found, relevant, k) <= ndcg(in_front, relevant, k) <= 1 + 1e-9


@given(found=IDS, relevant=SOME, k=K)
def test_a_passage_found_again_gains_nothing(found: list[int], relevant: list[int], k: int) -> None:
    repeated = [passage for passage in found for _ in range(2)]
    assert ndcg(repeated, relevant, 2 * k) <= 1 + 1e-9
    assert ndcg([*found[:k], *found[:k]], relevant, 2 * k) == ndcg(found[:k], relevant, 2 * k)


@given(found=IDS, relevant=SOME)
def test_recall_compares_k_results(found: list[int], relevant: list[int]) -> None:
    hits = [recall(found, relevant, k) * min(k, len(relevant)) for k in range(1, 21)]
    exact_first = [len(set(found[:k]) & set(relevant[:k])) for k in range(1, 21)]
    assert hits == pytest.approx(exact_first)


def test_the_mean_of_nothing_is_not_a_number() -> None:
    assert math.isnan(mean([]))
    assert mean([0.0, 1.0]) == 0.5
