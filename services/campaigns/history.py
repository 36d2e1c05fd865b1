"""What earlier loops tried and learned, for the prompts: nothing of the final part is in it."""

from dataclasses import dataclass

from services.campaigns.records import Attempt, Code, Feedback, Measurement, Proposal
from services.campaigns.run import CampaignRun
from services.contracts.campaigns import StepName
from services.metrics.missing_scores import mean_score


@dataclass(frozen=True)
class Tried:
    """A finished loop."""

    loop: int
    proposal: Proposal
    feedback: Feedback
    score: float | None

    def lesson(self) -> str:
        """One line for the LLM."""
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
    """The mean over the search part; None if no item has a score and 0 could be the best one."""
    scores = measurement.search.values()
    return mean_score(scores, higher_is_better=run.request.higher_is_better)


def best_loop(run: CampaignRun, before: int) -> int:
    """The accepted loop with the newest best model; 0 is the base model."""
    accepted = (
        loop
        for loop in range(before - 1, 0, -1)
        if run.finished(loop, StepName.FEEDBACK, Feedback).accepted
    )
    return next(accepted, 0)


def measurement_of(run: CampaignRun, loop: int) -> Measurement:
    """The scores of the base model, or of an accepted loop."""
    if loop == 0:
        return run.finished(0, StepName.BASE, Measurement)
    found = run.finished(loop, StepName.RUNNING, Attempt).measurement
    if found is None:
        raise ValueError(f"loop {loop} was accepted without a measurement")
    return found


def code_of(run: CampaignRun, loop: int) -> Code | None:
    """Script and settings of an accepted loop; None for the base model."""
    return run.finished(loop, StepName.CODING, Code) if loop else None
