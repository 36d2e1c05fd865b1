"""Feedback: the measurements decide, the LLM explains."""

from pydantic import Field

from services.campaigns.data.benchmark import Parts
from services.campaigns.data.lengths import made_text
from services.campaigns.llm import prompts
from services.campaigns.llm.conversation import Conversation
from services.campaigns.run.history import best_loop, measurement_of, next_verdict
from services.campaigns.run.records import Attempt, Code, Failed, Feedback, Proposal
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
    comparison, unsure = None, ""
    if failed is None and attempt.measurement is not None:
        best = measurement_of(run, best_loop(run))
        comparison = compare_measurements(
            attempt.measurement,
            best,
            higher_is_better=run.request.higher_is_better,
            policy=run.request.acceptance,
        )
        try:
            comparison = confirmed(run, comparison, parts, attempt.measurement, best)
        except StepFailed as error:
            unsure = error.message
        except BudgetSpent as spent:
            unsure = f"the limit of {spent.limit} was reached before it had scores"
    if unsure:
        run.note(f"Loop {run.loop} is not accepted without its second look: {unsure}")
    accepted = comparison is not None and comparison.improves and not unsure
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


def _verdict(feedback: Feedback) -> str:
    if feedback.comparison is not None:
        return _measured(feedback.comparison, is_accepted=feedback.accepted)
    failed = feedback.failed or Failed.model_validate({"failure": "ENV", "message": "no result"})
    return f"failed ({failed.failure}): {failed.message}"


def _measured(comparison: Comparison, *, is_accepted: bool) -> str:
    low, high = comparison.ci95
    text = (
        f"{'accepted' if is_accepted else 'rejected'}; its scores differ from the best model's by "
        f"{comparison.difference:+.4f} per sample in the direction of improvement (95 % interval "
        f"{low:+.4f} to {high:+.4f})"
    )
    if comparison.second_look is None:
        return text
    low, high = comparison.second_look.ci95
    return (
        f"{text}, and on fresh samples by {comparison.second_look.difference:+.4f} ({low:+.4f} to "
        f"{high:+.4f})"
    )


def _explain(
    run: CampaignRun, proposal: Proposal, code: Code, attempt: Attempt, verdict: str
) -> _Explanation:
    conversation = Conversation(run, "feedback", prompts.system_prompt(run.request))
    tried = f"Hypothesis: {proposal.hypothesis}\nTask: {proposal.task}"
    written = prompts.code_text(code if code.script else None).replace("The parent's", "Its")
    question = prompts.VERDICT.format(verdict=verdict)
    made = f"\nIts data: {made_text(attempt.made)}" if attempt.made else ""
    return conversation.ask_json(f"{tried}\n{written}{made}\n\n{question}", _Explanation)
