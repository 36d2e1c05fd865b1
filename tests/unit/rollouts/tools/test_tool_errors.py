"""What a model reads when a service gives no usable answer."""

import pytest

from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.clients.retries import FailureKind as Kind
from services.inference.clients.retries import ServiceFailed
from services.rollouts.tools.base import service_error


@pytest.mark.parametrize(
    ("kind", "status", "outcome", "text"),
    [
        (Kind.ENDLESS, 200, CallOutcome.FAILED, "Error: the tool's answer is too long."),
        (
            Kind.FINAL,
            503,
            CallOutcome.FAILED,
            "Error: the tool failed with HTTP status 503.",
        ),
        (
            Kind.STATUS,
            500,
            CallOutcome.FAILED,
            "Error: the tool failed with HTTP status 500.",
        ),
        (
            Kind.FINAL,
            422,
            CallOutcome.INVALID_ARGUMENTS,
            "Error: the tool refused the arguments: no such thing",
        ),
    ],
)
def test_the_model_reads_actionable_errors(
    kind: Kind, status: int, outcome: CallOutcome, text: str
) -> None:
    fault = service_error(ServiceFailed("for a person", kind, status=status, body="no such thing"))
    assert (fault.outcome, fault.text, fault.error) == (outcome, text, "for a person")
