"""Requests that cannot be answered in time are rejected immediately."""

import pytest

from services.retrieval.engine.admission import LONGEST_RETRY_AFTER, Overloaded, QueryAdmission


def test_queries_beyond_the_limit_are_rejected_until_others_finish() -> None:
    admission = QueryAdmission(limit=10)
    with admission.permits(8, 30.0):
        with pytest.raises(Overloaded), admission.permits(3, 30.0):
            pass
        with admission.permits(2, 30.0):
            assert admission.in_flight == 10
    with admission.permits(3, 30.0):
        assert admission.in_flight == 3
    assert (admission.in_flight, admission.refused) == (0, 1)


def test_an_oversized_request_is_admitted_alone() -> None:
    with QueryAdmission(limit=10).permits(1000, 30.0):
        pass


def test_a_request_that_would_time_out_is_rejected_early() -> None:
    now = 100.0
    admission = QueryAdmission(limit=10_000, clock=lambda: now)
    with admission.permits(1000, 30.0):
        for _ in range(100):  # ten queries a second
            with admission.permits(1, 200.0):
                now += 0.1

        with pytest.raises(Overloaded) as refused, admission.permits(1, 30.0):
            pass
        with admission.permits(1, 200.0):
            pass

    assert 1.0 <= refused.value.retry_after <= LONGEST_RETRY_AFTER
    assert admission.in_flight == 0


def test_a_slow_start_does_not_count_as_the_throughput() -> None:
    now = 100.0
    admission = QueryAdmission(limit=10_000, clock=lambda: now)
    with admission.permits(1, 30.0):
        now += 25.0  # an encoder starts
    with admission.permits(1, 30.0):
        now += 25.0
        with admission.permits(1, 30.0):
            pass
        with admission.permits(100, 30.0):
            assert admission.in_flight == 101


def test_an_error_releases_the_permits() -> None:
    admission = QueryAdmission(limit=1)
    with pytest.raises(ValueError, match="mine"), admission.permits(1, 1.0):
        raise ValueError("mine")

    assert admission.in_flight == 0
