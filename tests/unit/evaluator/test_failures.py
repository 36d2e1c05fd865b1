"""When an endpoint is given up."""

import pytest

from services.contracts.errors import JobFailed
from services.evaluator.failures import STREAK, FailureWatch, RequestFailure

REFUSED = RequestFailure(401, "wrong key")
DOWN = RequestFailure(None, "connection refused")
TOO_LONG = RequestFailure(400, "max_tokens is too large")


def fail(watch: FailureWatch, failure: RequestFailure, times: int) -> None:
    for _ in range(times):
        watch.failed(failure)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (REFUSED, "endpoint_refused"),
        (RequestFailure(404, "no such model"), "endpoint_refused"),
        (DOWN, "endpoint_unavailable"),
        (RequestFailure(503, "overloaded"), "endpoint_unavailable"),
        (RequestFailure(429, "slow down"), "endpoint_unavailable"),
        (TOO_LONG, "request_rejected"),
    ],
)
def test_the_same_failure_over_and_over_ends_with_its_cause(
    failure: RequestFailure, code: str
) -> None:
    watch = FailureWatch(answered=0)
    fail(watch, failure, STREAK - 1)
    with pytest.raises(JobFailed, match=failure.message) as error:
        watch.failed(failure)
    assert error.value.code == code


def test_an_answer_between_failures_ends_the_streak() -> None:
    watch = FailureWatch(answered=0)
    for _ in range(5):
        fail(watch, DOWN, STREAK - 1)
        watch.answered()
    watch.finish()


def test_different_failures_are_no_streak() -> None:
    watch = FailureWatch(answered=1)
    for _ in range(5):
        fail(watch, DOWN, STREAK - 1)
        fail(watch, REFUSED, STREAK - 1)


def test_prompts_that_are_rejected_after_others_were_answered_end_nothing() -> None:
    watch = FailureWatch(answered=3)
    fail(watch, TOO_LONG, 5 * STREAK)
    watch.finish()


def test_rejections_in_different_words_are_no_streak_but_no_outcome_either() -> None:
    watch = FailureWatch(answered=0)
    for length in range(5 * STREAK):
        watch.failed(RequestFailure(400, f"{length} tokens are too many"))
    with pytest.raises(JobFailed, match="no sample was answered: 49 tokens"):
        watch.finish()


def test_an_endpoint_that_goes_away_later_is_given_up_too() -> None:
    with pytest.raises(JobFailed, match="connection refused"):
        fail(FailureWatch(answered=1000), DOWN, STREAK)
