"""What earlier loops tried and learned, for prompts; never includes the final part."""

from dataclasses import dataclass

from services.campaigns.run.records import Attempt, Code, Feedback, Measurement, Proposal
from services.campaigns.run.run import CampaignRun
from services.contracts.campaigns.loops import StepName
from services.metrics.missing_scores import mean_score


@dataclass(frozen=True)
class Tried:
    """A finished loop."""

    loop: int
    proposal: Proposal
    feedback: Feedback
    score: float | None

    def lesson(self) -> str:
        """A one-line summary for the LLM."""
        outcome = "accepted" if self.feedback.accepted else "rejected"
        if self.feedback.failed is not None:
            outcome = f"failed ({self.feedback.failed.failure})"
        score = f", score {self.score:.4f}" if self.score is not None else ""
        hypothesis, reason = self.proposal.hypothesis, self.feedback.reason
        begin = f"Loop {self.loop} (from loop {self.proposal.parent}): {outcome}{score}."
        return f"{begin} Hypothesis: {hypothesis} Lesson: {reason}"


def tried(run: CampaignRun, loop: int) -> Tried:
    """A finished loop."""
    attempt = run.finished(loop, StepName.RUNNING, Attempt)
    return Tried(
        loop,
        run.finished(loop, StepName.PROPOSAL, Proposal),
        run.finished(loop, StepName.FEEDBACK, Feedback),
        search_score(run, attempt.measurement) if attempt.measurement else None,
    )


def search_score(run: CampaignRun, measurement: Measurement) -> float | None:
    """Mean over the search part; None if no item has a score and 0 could be the best one."""
    return mean_score(measurement.on_search, higher_is_better=run.request.higher_is_better)


def judged_loops(run: CampaignRun) -> list[int]:
    """The loops that have a verdict."""
    return list(run.steps.outputs(StepName.FEEDBACK))


def accepted_loops(run: CampaignRun) -> list[int]:
    """The base model and the accepted loops in the order of their verdicts. The last is the best,
    since each was better than the best before it."""
    verdicts = run.steps.outputs(StepName.FEEDBACK)
    accepted = [loop for loop, verdict in verdicts.items() if verdict["accepted"]]
    return [0, *sorted(accepted, key=lambda loop: verdicts[loop].get("order") or loop)]


def best_loop(run: CampaignRun) -> int:
    """The loop of the best model; 0 is the base model."""
    return accepted_loops(run)[-1]


def next_verdict(run: CampaignRun) -> int:
    """The rank of the next verdict in the order of verdicts, from 1."""
    verdicts = run.steps.outputs(StepName.FEEDBACK)
    places = (verdict.get("order") or loop for loop, verdict in verdicts.items())
    return 1 + max(places, default=0)


def measurement_of(run: CampaignRun, loop: int) -> Measurement:
    """The scores of the base model, or of an accepted loop."""
    if loop == 0:
        return stored(run, run.finished(0, StepName.BASE, Measurement))
    found = run.finished(loop, StepName.RUNNING, Attempt).measurement
    if found is None:
        raise ValueError(f"loop {loop} was accepted without a measurement")
    return stored(run, found)


def stored(run: CampaignRun, measured: Measurement) -> Measurement:
    """A measurement of a finished step, which may be one of an earlier version.

    None stands for an item there of which at least one sample had no score: one of several seeds,
    or samples, is not enough to tell its score.
    """
    return measured.as_stored(run.request.samples_per_item * (len(measured.seeds) or 1))


def code_of(run: CampaignRun, loop: int) -> Code | None:
    """Script and settings of an accepted loop; None for the base model."""
    return run.finished(loop, StepName.CODING, Code) if loop else None
