"""When endpoint failures fail a job."""

import pytest

from services.contracts.errors import JobFailed
from services.evaluator.failures import (
    STREAK,
    UNAVAILABLE_SECONDS,
    FailureWatch,
    RequestFailure,
)

REFUSED = RequestFailure(401, "wrong key")
DOWN = RequestFailure(None, "connection refused")
TOO_LONG = RequestFailure(400, "max_tokens is too large")
UNAVAILABLE = [DOWN, RequestFailure(503, "overloaded"), RequestFailure(429, "slow down")]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(watch: FailureWatch, failure: RequestFailure, times: int) -> None:
    for _ in range(times):
        watch.failed(failure)


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize("failure", [*UNAVAILABLE, TOO_LONG])
def test_ten_consecutive_unanswered_samples_do_not_fail_the_job(
    failure: RequestFailure, answered: int
) -> None:
    watch = FailureWatch(answered=answered)
    fail(watch, failure, 10)
    watch.answered()
    fail(watch, failure, 10 * STREAK)
    watch.finish()


@pytest.mark.parametrize("failure", [REFUSED, RequestFailure(404, "no such model")])
def test_an_endpoint_that_rejects_every_request_fails_the_job(failure: RequestFailure) -> None:
    watch = FailureWatch(answered=0)
    fail(watch, failure, STREAK - 1)

    with pytest.raises(JobFailed, match=failure.message) as error:
        watch.failed(failure)

    assert error.value.code == "endpoint_refused"


def test_rejections_after_an_answer_do_not_fail_the_job() -> None:
    watch = FailureWatch(answered=1)
    fail(watch, REFUSED, 5 * STREAK)
    watch.finish()


@pytest.mark.parametrize("failure", UNAVAILABLE)
def test_an_endpoint_that_stays_unavailable_fails_the_job(failure: RequestFailure) -> None:
    clock = Clock()
    watch = FailureWatch(answered=1000, clock=clock)
    watch.failed(failure)
    clock.now += UNAVAILABLE_SECONDS
    watch.failed(failure)
    clock.now += 1.0

    with pytest.raises(JobFailed, match=failure.message) as error:
        watch.failed(failure)

    assert error.value.code == "endpoint_unavailable"


@pytest.mark.parametrize("between", ["answer", "rejection"])
def test_any_response_shows_that_the_endpoint_is_available(between: str) -> None:
    clock = Clock()
    watch = FailureWatch(answered=1, clock=clock)
    for _ in range(5):
        watch.failed(DOWN)
        clock.now += UNAVAILABLE_SECONDS - 1.0
        if between == "answer":
            watch.answered()
        else:
            watch.failed(TOO_LONG)


@pytest.mark.parametrize(
    ("failure", "code"),
    [(DOWN, "endpoint_unavailable"), (TOO_LONG, "request_rejected"), (REFUSED, "endpoint_refused")],
)
def test_a_job_without_any_answer_fails_at_the_end(failure: RequestFailure, code: str) -> None:
    watch = FailureWatch(answered=0)
    watch.failed(failure)

    with pytest.raises(JobFailed, match=f"no request was answered: {failure.message}") as error:
        watch.finish()

    assert error.value.code == code
