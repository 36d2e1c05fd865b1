"""Feedback: the measurements decide, the LLM explains.

A model beats the best one so far by a paired comparison with an interval, which must hold on fresh
samples. Many attempts are compared with one measurement of the best model, which may have been
unlucky: of twenty equal ones, a fifth of all campaigns accept some. So a model that seems better is
sampled again with new seeds, as is the best one, and both looks must agree. Greedy answers are the
same however often they are sampled: the level of the test is divided among the loops instead (C. E.
Bonferroni).
"""

from collections.abc import Mapping, Sequence

from pydantic import Field

from services.campaigns.data.benchmark import SEARCH, Parts
from services.campaigns.data.rows import made_text
from services.campaigns.llm import prompts
from services.campaigns.llm.conversation import Conversation
from services.campaigns.run.history import best_loop, measurement_of, next_verdict
from services.campaigns.run.records import (
    Attempt,
    Code,
    Failed,
    Feedback,
    Measurement,
    Proposal,
    Scores,
)
from services.campaigns.run.results import evaluation_rows
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, StepFailed
from services.campaigns.steps.measurement import begin_part, item_means, item_scores
from services.contracts.base import Resource
from services.contracts.campaigns.judging import MAX_SEEDS, AcceptancePolicy, AcceptBy
from services.contracts.campaigns.loops import Comparison
from services.metrics.missing_scores import Score, compare_scores

BY_INTERVAL = AcceptancePolicy()


def compare_measurements(
    measured: Measurement,
    best: Measurement,
    *,
    higher_is_better: bool,
    policy: AcceptancePolicy = BY_INTERVAL,
) -> Comparison:
    """Compare a model with the best one on the search part; both may have several seeds.

    The comparison is clustered by item: samples and seeds of an item are averaged first.
    """
    compared = compare(
        measured.search,
        best.search,
        higher_is_better=higher_is_better,
        shares=measured.shares and best.shares,
        policy=policy,
    )
    seeds = {"seeds": len(measured.seeds) or 1, "best_seeds": len(best.seeds) or 1}
    return compared.model_copy(update=seeds)


def compare(
    scores: Mapping[int, Score],
    best: Mapping[int, Score],
    *,
    higher_is_better: bool,
    shares: bool = False,
    policy: AcceptancePolicy = BY_INTERVAL,
) -> Comparison:
    """Compare per-item scores with the best model's, as evaluations are compared.

    The model improves as far as the policy has it; by default, if the whole interval of the mean
    difference is above zero. An item without a score counts as the worst score of both models.
    ``shares`` says that all scores are shares of samples which scored 0 or 1.
    """
    if not scores or scores.keys() != best.keys():
        raise ValueError("the scores are not those of the same items")
    items = sorted(scores)
    before, after = [best[item] for item in items], [scores[item] for item in items]
    found = compare_scores(before, after, higher_is_better=higher_is_better, shares=shares)
    return Comparison(
        samples=len(items),
        difference=found.difference,
        ci95=found.ci95,
        p_value=found.p_value,
        exact_p_value=found.exact_p_value,
        improves=policy.accepts(found.difference, found.ci95),
    )


FALSE_CAMPAIGNS = 0.05
"""Share of campaigns without any gain that may accept a model."""
FIRST_VERDICTS = 20
FRESH = 1_000
"""Sampling seeds from here on are those of second looks."""


def confirmed(
    run: CampaignRun,
    first: Comparison,
    parts: Parts,
    measured: Measurement,
    best: Measurement,
) -> Comparison:
    """The comparison with what a second look says; raises `Waiting`, `StepFailed` and
    `BudgetSpent`."""
    request = run.request
    if not first.improves or request.acceptance.by is not AcceptBy.INTERVAL:
        return first
    if request.sampling.temperature == 0:
        clear = is_clear(first, request.budget.loops, next_verdict(run))
        return first.model_copy(update={"improves": clear})
    begun = {
        name: _begin(run, name, each, parts)
        for name, each in (("candidate", measured), ("best", best))
    }
    candidate, other = (
        each.model_copy(update={"search": _scores(run, begun[name])})
        for name, each in (("candidate", measured), ("best", best))
    )
    second = compare_measurements(
        candidate,
        other,
        higher_is_better=request.higher_is_better,
        policy=request.acceptance,
    )
    return first.model_copy(update={"improves": second.improves, "second_look": second})


def is_clear(comparison: Comparison, loops: int, order: int) -> bool:
    """Whether the ``order``-th verdict of a campaign of at most so many loops tells a gain from
    chance. Exact where that can be: at so strict a level the normal limit is not."""
    exact = comparison.exact_p_value
    p_value = comparison.p_value if exact is None else exact
    return p_value is not None and p_value <= 2 * _level(loops, order)


def _level(loops: int, order: int) -> float:
    """The one-sided level of a verdict; those of a campaign add up to `FALSE_CAMPAIGNS` at most.

    Campaigns that other limits end name far more loops than they have: half of the share is
    for the first verdicts, and each half of the rest for twice as many.
    """
    if loops <= FIRST_VERDICTS:
        return FALSE_CAMPAIGNS / loops
    share, number, last = FALSE_CAMPAIGNS / 2, FIRST_VERDICTS, FIRST_VERDICTS
    while order > last:
        share, number = share / 2, number * 2
        last += number
    return share / number


def measure_noise(run: CampaignRun, parts: Parts, base: Measurement) -> Measurement:
    """The base model's measurement, with how it differs from another one of the same model: gains
    up to there are noise. Greedy answers have none."""
    if run.request.sampling.temperature == 0:
        return base
    again = base.model_copy(update={"search": _scores(run, _begin(run, "noise", base, parts))})
    noise = compare_measurements(
        again, base, higher_is_better=run.request.higher_is_better, policy=run.request.acceptance
    )
    floor = (noise.ci95[1] - noise.ci95[0]) / 2
    run.note(
        f"Two measurements of the base model differ by {noise.difference:+.4f}: gains up to about "
        f"{floor:.4f} are noise"
    )
    return base.model_copy(update={"noise_floor": floor})


def _begin(run: CampaignRun, name: str, measured: Measurement, parts: Parts) -> Sequence[str]:
    """Create the evaluations of a model's seeds on the search part once; return their jobs."""
    models = [each.model for each in measured.seeds] or [measured.model]
    offset = 0 if name == "candidate" else MAX_SEEDS
    first = FRESH + 2 * MAX_SEEDS * run.loop + offset
    return [
        begin_part(run, f"{name}.{number}", SEARCH, model, parts.search, first + number)
        for number, model in enumerate(models)
    ]


def _scores(run: CampaignRun, jobs: Sequence[str]) -> Scores:
    return item_means([item_scores(evaluation_rows(run, job), run.request.pass_k) for job in jobs])


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
