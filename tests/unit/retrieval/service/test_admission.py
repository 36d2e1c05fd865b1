"""Who cannot be answered in time is told so at once."""

import pytest

from services.retrieval.engine.admission import LONGEST_RETRY_AFTER, Admission, Overloaded


def test_queries_beyond_the_limit_are_refused_until_others_are_answered() -> None:
    admission = Admission(limit=10)
    with admission.place(8, 30.0):
        with pytest.raises(Overloaded), admission.place(3, 30.0):
            pass
        with admission.place(2, 30.0):
            assert admission.under_way == 10
    with admission.place(3, 30.0):
        assert admission.under_way == 3
    assert (admission.under_way, admission.refused) == (0, 1)


def test_a_request_larger_than_the_limit_is_let_in_alone() -> None:
    with Admission(limit=10).place(1000, 30.0):
        pass


def test_who_would_be_answered_too_late_is_refused_early() -> None:
    now = 100.0
    admission = Admission(limit=10_000, clock=lambda: now)
    with admission.place(1000, 30.0):
        for _ in range(100):  # ten queries a second
            with admission.place(1, 200.0):
                now += 0.1

        with pytest.raises(Overloaded) as refused, admission.place(1, 30.0):
            pass
        with admission.place(1, 200.0):
            pass

    assert 1.0 <= refused.value.retry_after <= LONGEST_RETRY_AFTER
    assert admission.under_way == 0


def test_a_slow_beginning_is_not_taken_for_the_pace() -> None:
    now = 100.0
    admission = Admission(limit=10_000, clock=lambda: now)
    with admission.place(1, 30.0):
        now += 25.0  # an encoder starts
    with admission.place(1, 30.0):
        now += 25.0
        with admission.place(1, 30.0):
            pass
        with admission.place(100, 30.0):
            assert admission.under_way == 101


def test_an_error_gives_the_place_back() -> None:
    admission = Admission(limit=1)
    with pytest.raises(ValueError, match="mine"), admission.place(1, 1.0):
        raise ValueError("mine")

    assert admission.under_way == 0
