"""Coding: the LLM writes a data script and settings until they pass increasingly costly checks."""

from services.campaigns.data.benchmark import KnownItems
from services.campaigns.data.rows import made_text, read_rows, rows_made
from services.campaigns.data.training_settings import TrainingSettings, read_settings
from services.campaigns.llm import prompts
from services.campaigns.llm.conversation import Conversation
from services.campaigns.run.history import code_of
from services.campaigns.run.records import Code, Failed, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.scripts.script import check_script, run_script
from services.campaigns.steps.running import try_training
from services.contracts.campaigns.loops import Failure
from services.metrics.fences import fenced_blocks


def write_code(run: CampaignRun, proposal: Proposal, items: KnownItems) -> Code:
    """Have the LLM write script and settings; each failed check is returned to it."""
    parent = code_of(run, proposal.parent)
    kept = parent.script if parent and proposal.skip_data_processing else None
    task = prompts.CODING_SETTINGS_ONLY
    if kept is None:
        task = prompts.CODING.format(
            seconds=_script_seconds(run), network=prompts.network_text(run.request)
        )
    message = "\n\n".join(
        [
            f"The experiment: {proposal.task}",
            f"The data sets:\n{prompts.datasets_text(run)}",
            prompts.code_text(parent),
            task,
        ]
    )
    conversation = Conversation(run, "coding", prompts.system_prompt(run.request))
    limit = run.request.budget.coding_attempts
    for attempt in range(1, limit + 1):
        try:
            answer = conversation.ask(message)
        except StepFailed as refused:
            failed = Failed(failure=refused.failure, message=refused.message)
            return Code(attempts=attempt - 1, failed=failed)
        # The last block of a language counts.
        blocks = {block.language: f"{block.content}\n" for block in fenced_blocks(answer)}
        script = blocks.get("python", "") if kept is None else kept
        try:
            checked = _check(run, attempt, script, blocks.get("yaml", ""), items)
        except StepFailed as problem:
            last = problem
            message = prompts.REPAIR.format(problem=problem.message)
            continue
        conversation.share_answer()
        return Code(
            script=script,
            settings=blocks["yaml"],
            hyperparameters=checked.hyperparameters.model_dump(mode="json"),
            notes=checked.notes,
            attempts=attempt,
        )
    message = f"no answer of {limit} passed the checks; the last: {last.message}"
    return Code(attempts=limit, failed=Failed(failure=last.failure, message=message))


def _script_seconds(run: CampaignRun) -> float:
    """The time limit of a script on all data."""
    return min(run.settings.most_script_seconds, run.request.time_limits.script)


def _check(
    run: CampaignRun, attempt: int, script: str, settings: str, items: KnownItems
) -> TrainingSettings:
    """Run the checks, cheapest first; raises `StepFailed` at the first failure."""
    if not script.strip() or not settings.strip():
        raise StepFailed(Failure.CONFIG, "the answer lacks a ```python or a ```yaml block")
    check_script(script)
    checked = read_settings(settings)
    data = run_script(run, f"debug-{attempt}", script, debug=True)
    rows = read_rows(data, items)
    made = made_text(rows_made(run, f"lengths.debug-{attempt}", rows))
    try:
        usable = rows.first(run.request.training_rows)
        try_training(run, attempt, checked.hyperparameters, usable)
    except StepFailed as failed:
        dropped = prompts.notes_text(checked.notes)
        message = f"{failed.message}\nThe debug rows: {made}{dropped}"
        raise StepFailed(failed.failure, message) from failed
    return checked
