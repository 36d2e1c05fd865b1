"""What a model reads of a service that gave no answer of use."""

import pytest

from services.contracts.trajectories import CallOutcome
from services.inference.clients.retries import ServiceFailed, Trouble
from services.rollouts.tools.fault import service_fault


@pytest.mark.parametrize(
    ("trouble", "status", "outcome", "text"),
    [
        (Trouble.FINAL, 200, CallOutcome.FAILED, "Error: the tool's answer is too long."),
        (Trouble.FINAL, 503, CallOutcome.FAILED, "Error: the tool failed with HTTP status 503."),
        (Trouble.STATUS, 500, CallOutcome.FAILED, "Error: the tool failed with HTTP status 500."),
        (
            Trouble.FINAL,
            422,
            CallOutcome.INVALID_ARGUMENTS,
            "Error: the tool refused the arguments: no such thing",
        ),
    ],
)
def test_the_model_reads_what_it_can_learn_from(
    trouble: Trouble, status: int, outcome: CallOutcome, text: str
) -> None:
    fault = service_fault(
        ServiceFailed("for a person", trouble, status=status, body="no such thing")
    )
    assert (fault.outcome, fault.text, fault.error) == (outcome, text, "for a person")
