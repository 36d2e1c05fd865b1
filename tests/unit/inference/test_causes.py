"""The table of docs/failures.md: what is the infrastructure's failure, and what the policy's."""

import pytest

from services.contracts.failures import InfrastructureCause as Cause
from services.core.process.worker_pool import (
    FunctionFailed,
    WorkerEnded,
    WorkerNotStarted,
    WorkerRaised,
    WorkerTimedOut,
)
from services.inference.causes import cause_of
from services.inference.clients.retries import FailureKind as Kind
from services.inference.clients.retries import ServiceFailed
from services.inference.token_engine.base import EngineFailed
from services.rewards.interface import RewardFailed


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (Kind.UNSENT, Cause.REFUSED),
        (Kind.BROKEN_OFF, Cause.RESET),
        (Kind.TIMED_OUT, Cause.TIMED_OUT),
        (Kind.UNREADABLE, Cause.UNREADABLE),
        (Kind.ENDLESS, None),
    ],
)
def test_a_request_without_a_usable_answer(kind: Kind, cause: Cause | None) -> None:
    assert cause_of(ServiceFailed("x", kind, status=200)) is cause


@pytest.mark.parametrize("kind", [Kind.STATUS, Kind.FINAL])
@pytest.mark.parametrize(
    ("statuses", "cause"),
    [
        ((429, 503, 504), Cause.OVERLOADED),
        ((500, 502, 507), Cause.SERVER_ERROR),
        ((401, 402, 403, 404, 405, 410, 421, 501, 301), Cause.MISCONFIGURED),
        ((408,), Cause.TIMED_OUT),
        ((400, 409, 413, 415, 422), None),
    ],
)
def test_an_http_status(kind: Kind, statuses: tuple[int, ...], cause: Cause | None) -> None:
    assert {cause_of(ServiceFailed("x", kind, status=status)) for status in statuses} == {cause}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (WorkerNotStarted("x"), Cause.NOT_STARTED),
        (WorkerEnded("x"), Cause.KILLED),
        (WorkerTimedOut("x"), Cause.TIMED_OUT),
        (WorkerRaised("x", unavailable=True), Cause.SERVICE_ERROR),
        (WorkerRaised("x", unavailable=False), None),
    ],
)
def test_a_user_function(error: Exception, cause: Cause | None) -> None:
    failed = FunctionFailed("x")
    failed.__cause__ = error
    assert cause_of(failed) is cause


@pytest.mark.parametrize("outer", [EngineFailed("x"), RewardFailed("x")])
def test_an_error_has_the_cause_that_it_was_raised_from(outer: Exception) -> None:
    outer.__cause__ = ServiceFailed("x", Kind.STATUS, status=503)
    assert cause_of(outer) is Cause.OVERLOADED


def test_a_reward_names_a_cause_of_its_own() -> None:
    assert RewardFailed("x").cause is None
    assert RewardFailed("x", cause=Cause.SERVICE_ERROR).cause is Cause.SERVICE_ERROR
    outer = RewardFailed("y")
    outer.__cause__ = RewardFailed("x", cause=Cause.NO_PROCESSOR_TIME)
    assert outer.cause is Cause.NO_PROCESSOR_TIME
