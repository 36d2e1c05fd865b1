"""How a kind of tool says that a call came to nothing."""

from http import HTTPStatus

from services.contracts.trajectories import CallOutcome
from services.inference.clients.json_service import ServiceFailed, Trouble

BAD_ARGUMENTS = frozenset({400, 413, 422})
SHOWN_CHARACTERS = 500


class ToolFault(Exception):
    """A call came to nothing. ``text`` is for the model, ``error`` for a person."""

    def __init__(self, outcome: CallOutcome, text: str, error: str, attempts: int) -> None:
        super().__init__(error)
        self.outcome = outcome
        self.text = text
        self.error = error
        self.attempts = attempts


def bad_arguments(problem: str) -> ToolFault:
    """The model's arguments cannot be used; nothing was asked."""
    return ToolFault(CallOutcome.INVALID_ARGUMENTS, f"Error: {problem}", problem, 0)


def service_fault(failed: ServiceFailed) -> ToolFault:
    """The service gave no answer. The model reads what it can learn from: its own mistakes."""
    outcome, text = CallOutcome.FAILED, "Error: the tool could not be reached."
    is_refusal = failed.trouble in (Trouble.STATUS, Trouble.FINAL)
    if is_refusal and failed.status in BAD_ARGUMENTS:
        outcome = CallOutcome.INVALID_ARGUMENTS
        text = f"Error: the tool refused the arguments: {failed.body[:SHOWN_CHARACTERS]}"
    elif failed.trouble is Trouble.TIMED_OUT:
        outcome, text = CallOutcome.TIMED_OUT, "Error: the tool did not answer in time."
    elif is_refusal and failed.status == HTTPStatus.OK:
        text = "Error: the tool's answer is too long."
    elif is_refusal:
        text = f"Error: the tool failed with HTTP status {failed.status}."
    elif failed.trouble is Trouble.UNREADABLE:
        text = "Error: the tool gave an answer that cannot be read."
    elif failed.trouble is Trouble.BROKEN_OFF:
        text = "Error: the tool broke off its answer."
    return ToolFault(outcome, text, failed.message, failed.attempts)
