"""The whole campaign, as a program that restarts from the beginning at every wake-up.

Finished steps return their recorded output, so that it resumes where it left off.
"""

from services.campaigns.data.benchmark import KnownItems, Parts
from services.campaigns.gateway import GatewayRefused
from services.campaigns.run.branches import take_loops
from services.campaigns.run.history import best_loop, judged_loops, measurement_of, tried
from services.campaigns.run.records import Attempt, Code, Feedback, Measurement, Proposal, Record
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, StepFailed
from services.campaigns.steps.acceptance import measure_noise
from services.campaigns.steps.coding import write_code
from services.campaigns.steps.feedback import judge
from services.campaigns.steps.measurement import FixedModel, measure_seeds, parts_of
from services.campaigns.steps.proposal import propose
from services.campaigns.steps.running import run_experiment
from services.contracts.campaigns.campaigns import CampaignResult
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import StepName
from services.contracts.errors import JobFailed


def advance(run: CampaignRun) -> CampaignResult:
    """Run until the budget is exhausted; raises `Waiting` wherever it must wait before that.

    Raises `JobFailed` when the base model cannot be measured.
    """
    if not run.has_begun:
        run.await_others()
    parts = parts_of(run)
    items = KnownItems(parts)
    try:
        run.step(0, StepName.BASE, Measurement, lambda: _measure_base(run, parts))
        ended_by = take_loops(run, lambda branch, loop: _loop(branch, loop, parts, items))
    except BudgetSpent as spent:
        ended_by = spent.limit
    best = best_loop(run)
    return CampaignResult(
        ended_by=ended_by,
        best_loop=best,
        best_model=measurement_of(run, best).model if best else run.request.base_model,
        llm_tokens=run.budget.tokens,
        cost=run.budget.cost,
    )


def _measure_base(run: CampaignRun, parts: Parts) -> Measurement:
    try:
        base = measure_seeds(run, parts, FixedModel(run, run.request.base_model, parts))
        return measure_noise(run, parts, base)
    except (StepFailed, GatewayRefused) as error:
        message = f"the base model cannot be measured: {error.message}"
        raise JobFailed(message, param="base_model", code="base_not_measured") from error


def _loop(run: CampaignRun, loop: int, parts: Parts, items: KnownItems) -> Limit | None:
    """Run all steps of a loop; return the limit that left its verdict unexplained."""
    proposal = run.step(loop, StepName.PROPOSAL, Proposal, lambda: propose(run))

    def code_it() -> Code:
        return Code() if proposal.failed else write_code(run, proposal, items)

    code = run.step(loop, StepName.CODING, Code, code_it)

    def try_it() -> Attempt:
        has_code = not (proposal.failed or code.failed)
        return run_experiment(run, code, parts, items) if has_code else Attempt()

    attempt = run.step(loop, StepName.RUNNING, Attempt, try_it)
    feedback = run.step(
        loop, StepName.FEEDBACK, Feedback, lambda: judge(run, proposal, code, attempt, parts)
    )
    run.step(loop, StepName.RECORD, Record, lambda: _record(run, loop, feedback))
    return feedback.unexplained


def _record(run: CampaignRun, loop: int, feedback: Feedback) -> Record:
    best = best_loop(run)
    verdict = "accepted" if feedback.accepted else "not accepted"
    run.note(f"Loop {loop}: {verdict}; the best model is that of loop {best}{_lost(feedback)}")
    run.log.write_summary([tried(run, each).lesson() for each in judged_loops(run)])
    return Record(best_loop=best, best_model=measurement_of(run, best).model)


def _lost(feedback: Feedback) -> str:
    found = feedback.comparison
    if found is None or not found.left_out:
        return ""
    return (
        f"; {found.samples} of {found.samples + found.left_out} items were compared; the others "
        "were left out"
    )
