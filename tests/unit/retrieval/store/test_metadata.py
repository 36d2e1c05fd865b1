"""Metadata as terms and as numbers."""

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.store.metadata import MAX_TERM, metadata_term, metadata_terms, sortable

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_numbers_keep_their_order(one: float, other: float) -> None:
    first, second = sortable(one), sortable(other)

    assert first is not None
    assert second is not None
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)
    assert -(2**63) <= first < 2**63


def test_non_finite_values_are_not_sortable() -> None:
    assert [sortable(value) for value in (float("nan"), float("inf"), 10**400)] == [None] * 3


def test_equal_numbers_are_equal_and_other_types_are_not() -> None:
    assert metadata_term("f", 1) == metadata_term("f", 1.0)
    assert len({metadata_term("f", value) for value in (1, True, "1", "n1", "b1", 1.5)}) == 6


def test_field_and_value_cannot_be_confused() -> None:
    assert metadata_term("a.b", "c") != metadata_term("a", "b.c")
    assert metadata_term("a", "x") != metadata_term("ax", "")


def test_lists_and_objects_contribute_their_contents() -> None:
    facts = metadata_terms(
        {"tags": ["a", "b"], "author": {"name": "c", "born": 1900}, "none": None}
    )

    assert set(facts.terms) == {
        metadata_term("tags", "a"),
        metadata_term("tags", "b"),
        metadata_term("author.name", "c"),
        metadata_term("author.born", 1900),
    }
    assert list(facts.numbers.values()) == [[sortable(1900)]]


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_terms_are_bounded(field: str, value: str) -> None:
    assert len(metadata_term(field, value).encode()) <= MAX_TERM
