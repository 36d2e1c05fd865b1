"""The report of a campaign as sections, for a writer of reports."""

from collections.abc import Iterator, Sequence

from services.contracts.campaigns.loops import Comparison
from services.contracts.campaigns.reports import (
    CampaignCost,
    CampaignReport,
    FinalComparison,
    ReportedAttempt,
)
from services.metrics.reports.document import (
    Block,
    Cell,
    Command,
    Document,
    Facts,
    Gain,
    Points,
    Section,
    Table,
    Verdict,
    cell_text,
    gain_text,
)

MAX_INDENT = 20
"""Maximum depth of an attempt that its place in the table shows."""

ATTEMPT_COLUMNS = ("Attempt", "From", "Verdict", "Search", "Final", "Gain", "Hypothesis")
SEED_COLUMNS = ("Loop", "Seed", "Model", "Search", "Final")
DATA_COLUMNS = ("Loop", "Rows", "Removed for benchmark items", "Training", "Code")
ATTEMPTS = (
    "Each attempt is below the one that it started from. A gain is the paired difference to the "
    "best model of its time on the search part, in the direction of improvement, with its 95 % "
    "interval."
)
LOST = (
    "The infrastructure lost answers or grades of these items twice. They are in no score, and a "
    "comparison is made over the items that both models have."
)
SEEDS = (
    "Scores of attempts are means over their seeds; the model of an attempt is that of its first "
    "seed."
)


def campaign_document(report: CampaignReport) -> Document:
    """The report; text of the LLM stays text in every format."""
    campaign = report.campaign
    return Document(
        f"Campaign {campaign.id}",
        [campaign.scenario, Facts(_facts(report))],
        _sections(report),
        lambda: report.model_dump(mode="json"),
    )


def _sections(report: CampaignReport) -> Iterator[Section]:
    attempts = report.attempts
    yield Section("Attempts", [ATTEMPTS, Table(ATTEMPT_COLUMNS, _attempts(attempts))])
    if lost := list(_lost(attempts)):
        yield Section("Lost to the infrastructure", [LOST, Points(lost)])
    if any(attempt.seeds for attempt in attempts):
        notes = [f"Loop {each.loop}: {each.seeds_note}" for each in attempts if each.seeds_note]
        blocks: list[Block] = [SEEDS, Table(SEED_COLUMNS, _seeds(attempts))]
        yield Section("Seeds", [*blocks, Points(notes)] if notes else blocks)
    yield Section("What was learned", [Points(list(_lessons(attempts)) or ["Nothing yet."])])
    yield Section("Data", [Table(DATA_COLUMNS, _data(attempts))])
    yield Section("Cost", [Points(_costs(report.cost))])
    yield Section("Reproduce it", _commands(report))


def _facts(report: CampaignReport) -> Iterator[tuple[str, str]]:
    campaign = report.campaign
    ended = f"; ended by its {campaign.result.ended_by}" if campaign.result else ""
    yield "Base model", campaign.base_model
    yield "Status", f"{campaign.status.value}{ended}"
    yield "Best model", report.best_model or "none yet"
    lineage = (f"loop {loop}" if loop else "base model" for loop in report.lineage)
    yield "Lineage", " → ".join(lineage)
    yield "Accepted with", str(campaign.acceptance)
    yield "Seeds of a model", str(campaign.seeds)
    if (final := report.final) is not None:
        seeds = ""
        if max(final.base_seeds, final.best_seeds) > 1:
            seeds = (
                f" (seeds: {final.base_seeds} of the base model, {final.best_seeds} of the best)"
            )
        yield (
            "Final part, which nothing was chosen by",
            f"{final.base_score:.4f} before, {final.best_score:.4f} after, gain "
            f"{gain_text(final.difference, final.ci95)} over {_items(final)}{seeds}, "
            f"p = {final.p_value:.3g}",
        )


def _items(compared: Comparison | FinalComparison) -> str:
    lost = f" ({compared.left_out} left out)" if compared.left_out else ""
    return f"{compared.samples} items{lost}"


def _lost(attempts: Sequence[ReportedAttempt]) -> Iterator[str]:
    for each in attempts:
        lost = {"search": each.search_left_out, "final": each.final_left_out}
        parts = [f"{number} items of the {part} part" for part, number in lost.items() if number]
        if parts:
            compared = f"; compared over {_items(each.comparison)}" if each.comparison else ""
            yield f"{_name(each.loop)}: {' and '.join(parts)}{compared}"


def _attempts(attempts: Sequence[ReportedAttempt]) -> Iterator[Sequence[Cell]]:
    compared = [each.comparison for each in attempts if each.comparison is not None]
    scale = max([abs(end) for each in compared for end in each.ci95], default=0.0) or 1.0
    for each in attempts:
        place = "  " * min(each.depth, MAX_INDENT) + ("└ " if each.depth else "")
        seeds = f" ({len(each.seeds)} seeds)" if each.seeds else ""
        found = each.comparison
        yield (
            f"{place}{_name(each.loop)}",
            None if each.parent is None else _name(each.parent),
            verdict(each),
            f"{cell_text(each.search_score)}{seeds}",
            each.final_score,
            Gain(found.difference, found.ci95, scale) if found is not None else None,
            each.hypothesis,
        )


def _name(loop: int) -> str:
    return f"Loop {loop}" if loop else "Base"


def verdict(attempt: ReportedAttempt) -> Cell:
    """The outcome of a loop, in one or two words."""
    if attempt.loop == 0:
        return "base model"
    if attempt.failure is not None:
        return Verdict(f"failed: {attempt.failure.value}", "bad")
    if attempt.accepted is None:
        return "under way"
    return Verdict("accepted", "good") if attempt.accepted else Verdict("rejected", "fair")


def _seeds(attempts: Sequence[ReportedAttempt]) -> Iterator[Sequence[Cell]]:
    for attempt in attempts:
        for each in attempt.seeds:
            yield attempt.loop, each.seed, each.model, each.search_score, each.final_score


def _lessons(attempts: Sequence[ReportedAttempt]) -> Iterator[str]:
    for each in attempts:
        if each.loop and (lesson := each.reason or each.failure_message):
            yield f"Loop {each.loop}: {lesson}"


def _data(attempts: Sequence[ReportedAttempt]) -> Iterator[Sequence[Cell]]:
    for each in attempts:
        if each.loop and each.rows is not None:
            training, code = each.training_job, each.code_summary
            yield each.loop, each.rows, each.contaminated_rows, training, code


def _costs(cost: CampaignCost) -> Iterator[str]:
    yield f"{cost.hours:.2f} hours, {cost.gpu_hours:.2f} GPU hours"
    tokens = cost.prompt_tokens, cost.completion_tokens
    yield f"LLM: {_usage(cost.llm_calls, tokens, cost.llm_cost)}"
    for role, used in cost.llm_by_role.items():
        tokens = used.prompt_tokens, used.completion_tokens
        cached = (
            f"; {used.cached_answers} answers from the cache, {used.saved_tokens} tokens saved"
            if used.cached_answers
            else ""
        )
        yield f"{role.value} by {used.model}: {_usage(used.calls, tokens, used.cost)}{cached}"
    if (scripts := cost.by_scripts) is not None:
        tokens = scripts.prompt_tokens, scripts.completion_tokens
        yield f"data scripts: {_usage(scripts.calls, tokens, scripts.cost)}"
    for kind, number in cost.jobs.items():
        yield f"{number} {kind.replace('_', ' ')} jobs, {cost.job_hours[kind]:.2f} hours"


def _usage(calls: int, tokens: tuple[int, int], cost: float | None) -> str:
    paid = "" if cost is None else f", cost {cost:.4f}"
    return f"{calls} calls, {tokens[0]} prompt and {tokens[1]} completion tokens{paid}"


def _commands(report: CampaignReport) -> Iterator[Block]:
    if report.reproduce_model is not None:
        yield "Train the best model again:"
        yield Command(report.reproduce_model)
    yield "Start the same campaign again (the LLM may answer differently):"
    yield Command(report.reproduce_campaign)
