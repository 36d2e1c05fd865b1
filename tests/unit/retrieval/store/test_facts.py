"""Metadata as terms and as numbers."""

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.store.metadata import MAX_TERM, fact_term, facts_of, sortable

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_numbers_keep_their_order(one: float, other: float) -> None:
    first, second = sortable(one), sortable(other)

    assert first is not None
    assert second is not None
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)
    assert -(2**63) <= first < 2**63


def test_what_is_not_finite_is_no_number() -> None:
    assert [sortable(value) for value in (float("nan"), float("inf"), 10**400)] == [None] * 3


def test_equal_numbers_are_equal_and_other_types_are_not() -> None:
    assert fact_term("f", 1) == fact_term("f", 1.0)
    assert len({fact_term("f", value) for value in (1, True, "1", "n1", "b1", 1.5)}) == 6


def test_a_field_and_its_value_cannot_pass_for_another_field() -> None:
    assert fact_term("a.b", "c") != fact_term("a", "b.c")
    assert fact_term("a", "x") != fact_term("ax", "")


def test_lists_and_objects_have_the_facts_of_what_is_in_them() -> None:
    facts = facts_of({"tags": ["a", "b"], "author": {"name": "c", "born": 1900}, "none": None})

    assert set(facts.terms) == {
        fact_term("tags", "a"),
        fact_term("tags", "b"),
        fact_term("author.name", "c"),
        fact_term("author.born", 1900),
    }
    assert list(facts.numbers.values()) == [[sortable(1900)]]


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_no_term_is_too_long_for_the_index(field: str, value: str) -> None:
    assert len(fact_term(field, value).encode()) <= MAX_TERM
