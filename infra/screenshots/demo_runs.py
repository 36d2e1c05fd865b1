"""The demo runs in a stack that the screenshots show.

Each property raises `DemoMissing`, with the demo's command, if there is no such run.
"""

from functools import cached_property

from examples.demo_1_addition.run import BASE
from examples.demo_common.steps import LABEL
from services.contracts.evaluation.evaluations import Evaluation
from services.contracts.jobs import Job, JobKind, JobStatus
from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.contracts.training.fine_tuning import FineTuningJob
from services.contracts.training.methods import MethodType
from temper.client import Temper
from temper.client.trajectories import TrajectoryFilter

SEARCHED = 200


class DemoMissing(LookupError):
    """A demo has not run; the message is its command."""


class DemoRuns:
    """The latest run of each demo."""

    def __init__(self, client: Temper) -> None:
        self._client = client

    @cached_property
    def addition(self) -> FineTuningJob:
        """The supervised fine-tune of the tiny base model."""
        for job in self._fine_tunes:
            if job.model == BASE and job.fine_tuned_model is not None:
                return job
        raise DemoMissing("temper demo addition")

    @cached_property
    def reinforcement(self) -> FineTuningJob:
        """The online training with tool calls."""
        for job in self._fine_tunes:
            if job.method["type"] == MethodType.REINFORCEMENT:
                return job
        raise DemoMissing("temper demo retool")

    @cached_property
    def trajectory(self) -> str:
        """The lowest-reward rollout with a tool call in the first step's batch."""
        found = self._client.trajectories.page(
            self.reinforcement.id,
            JobKind.FINE_TUNING,
            sort=TrajectoryOrder.REWARD,
            ascending=True,
            where=TrajectoryFilter(step=1),
            most=SEARCHED,
        )
        for one in found.data:
            if one.tool_calls:
                return one.id
        raise DemoMissing("temper demo retool")

    @cached_property
    def evaluations(self) -> tuple[Evaluation, Evaluation]:
        """A base model's evaluation, and its fine-tuned model's on the same benchmark."""
        page = self._client.evaluations.page(most=SEARCHED)
        done = [one for one in page.data if _is_demo(one) and one.benchmark is not None]
        for tuned in done:
            for base in done:
                if base.file == tuned.file and base.model == BASE != tuned.model:
                    return base, tuned
        raise DemoMissing("temper demo evaluate")

    @cached_property
    def campaign(self) -> Job:
        """The campaign of three loops."""
        page = self._client.jobs.page(
            kind=JobKind.CAMPAIGN, status=JobStatus.SUCCEEDED, most=SEARCHED
        )
        for job in page.data:
            if job.model == BASE:
                return job
        raise DemoMissing("temper demo campaign")

    @cached_property
    def resumed(self) -> Job:
        """A job with several attempts."""
        page = self._client.jobs.page(
            kind=JobKind.FINE_TUNING, status=JobStatus.SUCCEEDED, most=SEARCHED
        )
        found = max(page.data, key=lambda job: job.attempt, default=None)
        if found is None or found.attempt < 2:
            raise DemoMissing("temper demo retool, and temper pause and resume while it trains")
        return found

    @cached_property
    def _fine_tunes(self) -> list[FineTuningJob]:
        return [job for job in self._client.fine_tuning.page(most=SEARCHED).data if _is_demo(job)]


def _is_demo(job: FineTuningJob | Evaluation) -> bool:
    return job.status is JobStatus.SUCCEEDED and LABEL in (job.metadata or {})
