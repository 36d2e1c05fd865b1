"""Feedback: the measurements decide, the LLM explains."""

from pydantic import Field

from services.campaigns.data.benchmark import Parts
from services.campaigns.data.rows import made_text
from services.campaigns.llm import prompts
from services.campaigns.llm.conversation import Conversation
from services.campaigns.run.history import best_loop, measurement_of, next_verdict, stored
from services.campaigns.run.records import Attempt, Code, Failed, Feedback, Measurement, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, StepFailed
from services.campaigns.steps.acceptance import compare_measurements, confirmed
from services.contracts.base import Resource
from services.contracts.campaigns.loops import Comparison


class _Explanation(Resource):
    code_summary: str = Field(alias="Code Summary", min_length=1)
    reason: str = Field(alias="Reason", min_length=1)


def judge(
    run: CampaignRun, proposal: Proposal, code: Code, attempt: Attempt, parts: Parts
) -> Feedback:
    """Compare with the best model so far, on the search part; failures are never accepted.

    Loops are judged one at a time, so that the best model does not change during a judgment. If the
    budget ends before the LLM has explained the verdict, the verdict stands; a second look that it
    ends accepts nothing.
    """
    failed = proposal.failed or code.failed or attempt.failed
    comparison = None
    if failed is None and attempt.measurement is not None:
        try:
            comparison = _compared(run, attempt.measurement, parts)
        except StepFailed as error:
            failed = Failed(failure=error.failure, message=error.message)
    accepted = comparison is not None and comparison.improves
    feedback = Feedback(
        accepted=accepted, order=next_verdict(run), comparison=comparison, failed=failed
    )
    try:
        said = _explain(run, proposal, code, attempt, _verdict(feedback))
    except StepFailed as error:
        return feedback.model_copy(update={"reason": error.message})
    except BudgetSpent as spent:
        return feedback.model_copy(update={"unexplained": spent.limit})
    update = {"code_summary": said.code_summary, "reason": said.reason}
    return feedback.model_copy(update=update)


def _compared(run: CampaignRun, measured: Measurement, parts: Parts) -> Comparison:
    """The comparison with the best model so far; raises `Waiting`, and `StepFailed` if they share
    no item."""
    measured = stored(run, measured)
    best = measurement_of(run, best_loop(run))
    first = compare_measurements(
        measured,
        best,
        higher_is_better=run.request.higher_is_better,
        policy=run.request.acceptance,
    )
    try:
        return confirmed(run, first, parts, measured, best)
    except StepFailed as error:
        unsure = error.message
    except BudgetSpent as spent:
        unsure = f"the limit of {spent.limit} was reached before it had scores"
    run.note(f"Loop {run.loop} is not accepted without its second look: {unsure}")
    return first.model_copy(update={"improves": False})


def _verdict(feedback: Feedback) -> str:
    if feedback.comparison is not None:
        return _measured(feedback.comparison, is_accepted=feedback.accepted)
    failed = feedback.failed or Failed.model_validate({"failure": "ENV", "message": "no result"})
    return f"failed ({failed.failure}): {failed.message}"


def _measured(comparison: Comparison, *, is_accepted: bool) -> str:
    text = (
        f"{'accepted' if is_accepted else 'rejected'}; its scores differ from the best model's by "
        f"{_gain(comparison)} per item in the direction of improvement"
    )
    decisive = comparison
    if comparison.second_look is not None:
        decisive = comparison.second_look
        text = f"{text}, and with fresh samples by {_gain(decisive)}"
    if decisive.level is not None:
        text = f"{text}; p = {decisive.gain_p_value:.2g}, accepted up to {decisive.level:.2g}"
    return text


def _gain(comparison: Comparison) -> str:
    low, high = comparison.ci95
    return f"{comparison.difference:+.4f} (95 % interval {low:+.4f} to {high:+.4f})"


def _explain(
    run: CampaignRun, proposal: Proposal, code: Code, attempt: Attempt, verdict: str
) -> _Explanation:
    conversation = Conversation(run, "feedback", prompts.system_prompt(run.request))
    tried = f"Hypothesis: {proposal.hypothesis}\nTask: {proposal.task}"
    written = prompts.code_text(code if code.script else None).replace("The parent's", "Its")
    question = prompts.VERDICT.format(verdict=verdict)
    made = f"\nIts data: {made_text(attempt.made)}" if attempt.made else ""
    return conversation.ask_json(f"{tried}\n{written}{made}\n\n{question}", _Explanation)
