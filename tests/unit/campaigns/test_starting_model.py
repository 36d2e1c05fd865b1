"""What trainings start from where the base model of a campaign is an adapter."""

from typing import Any

import pytest

from services.campaigns.data.training_settings import read_settings
from services.campaigns.run.records import Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed, Waiting
from services.campaigns.steps.running import create_training
from services.contracts.campaigns.loops import Failure, StepName
from services.contracts.jobs import JobError, JobStatus
from services.core.db.tables import ModelRow
from services.jobs.job import NewJob
from services.jobs.queues import MERGE, TRAINING
from services.jobs.store import create_job, fail_job, get_job, move_job
from tests.support.campaigns.run import StoredCampaign

MERGED = "ft:base:merged:1"


class Gateway:
    """Creates merges and trainings in the campaign's database."""

    def __init__(self, campaign: StoredCampaign) -> None:
        self.campaign = campaign
        self.created: list[tuple[str, dict[str, Any]]] = []

    async def create(self, path: str, body: dict[str, Any], key: str) -> str:
        self.created.append((path, body))
        is_merge = path.endswith("/merge")
        kind, queue = ("merge", MERGE) if is_merge else ("fine_tuning", TRAINING)
        request = {"model": "base"} if is_merge else body
        return self.start(f"job-{len(self.created)}", kind, queue, request, body["metadata"])

    def start(
        self, name: str, kind: str, queue: Any, request: dict[str, Any], metadata: dict[str, str]
    ) -> str:
        new = NewJob(name, kind, queue.work, queue.validation, request, metadata=metadata)
        with self.campaign.database.write() as session:
            create_job(session, new)
        return new.id

    @property
    def merges(self) -> int:
        return sum(path == "/v1/models/base/merge" for path, _ in self.created)

    @property
    def trained_from(self) -> list[str]:
        return [body["model"] for path, body in self.created if "fine_tuning" in path]


@pytest.fixture
def gateway(campaign: StoredCampaign) -> Gateway:
    campaign.create(branches=3)
    return Gateway(campaign)


def register(campaign: StoredCampaign, name: str, kind: str) -> None:
    with campaign.database.write() as session:
        session.add(ModelRow(id=name, kind=kind, folder=name, created_at=1.0))


def train(run: CampaignRun, gateway: Gateway, loop: int, yaml: str) -> None:
    """Create the training of a loop; raises what it waits for."""
    run.gateway = gateway  # type: ignore[assignment]  # a stand-in of the gateway
    settings = read_settings(yaml).hyperparameters.model_dump(mode="json")

    def step() -> Proposal:
        create_training(run, "train", "file-1", settings)
        return Proposal(parent=0)

    run.step(loop, StepName.RUNNING, Proposal, step)


def merged(campaign: StoredCampaign, job_id: str, error: JobError | None = None) -> None:
    """End a merge."""
    with campaign.database.write() as session:
        job = move_job(session, get_job(session, job_id), JobStatus.QUEUED, "valid")
        job = move_job(session, job, JobStatus.RUNNING, "runs")
        if error is not None:
            fail_job(session, job, error)
            return
        move_job(session, job, JobStatus.SUCCEEDED, "done", result={"merged_model": MERGED})
        session.add(ModelRow(id=MERGED, kind="full", folder="merged", created_at=2.0))


def merging(campaign: StoredCampaign, gateway: Gateway) -> CampaignRun:
    """A campaign whose first loop waits for the merge of its adapter."""
    register(campaign, "base", "adapter")
    run = campaign.run()
    with pytest.raises(Waiting):
        train(run, gateway, 1, "finetuning_type: full")
    return run


@pytest.mark.parametrize("yaml", ["finetuning_type: full", "lora_rank: 4", "pissa_init: true"])
def test_an_adapter_is_merged_once_where_a_training_cannot_go_on_with_it(
    campaign: StoredCampaign, gateway: Gateway, yaml: str
) -> None:
    register(campaign, "base", "adapter")
    run = campaign.run()

    for loop in (1, 2):
        with pytest.raises(Waiting, match="job-1"):
            train(run, gateway, loop, yaml)
    merged(campaign, "job-1")
    for loop in (1, 2, 3):
        train(run, gateway, loop, yaml)

    assert (gateway.merges, gateway.trained_from) == (1, [MERGED] * 3)


def test_an_adapter_whose_shape_stays_is_trained_further(
    campaign: StoredCampaign, gateway: Gateway
) -> None:
    register(campaign, "base", "adapter")

    train(campaign.run(), gateway, 1, "learning_rate: 1.0e-4")

    assert (gateway.merges, gateway.trained_from) == (0, ["base"])


def test_full_weights_are_trained_as_they_are(campaign: StoredCampaign, gateway: Gateway) -> None:
    register(campaign, "base", "full")

    train(campaign.run(), gateway, 1, "finetuning_type: full")

    assert (gateway.merges, gateway.trained_from) == (0, ["base"])


def test_a_merged_model_that_was_deleted_is_made_again(
    campaign: StoredCampaign, gateway: Gateway
) -> None:
    run = merging(campaign, gateway)
    merged(campaign, "job-1")
    with campaign.database.write() as session:
        session.query(ModelRow).filter_by(id=MERGED).delete()

    with pytest.raises(Waiting, match="job-2"):
        train(run, gateway, 2, "finetuning_type: full")


def test_a_merge_of_another_campaign_is_used_once_it_has_succeeded(
    campaign: StoredCampaign, gateway: Gateway
) -> None:
    register(campaign, "base", "adapter")
    run = campaign.run()
    gateway.start("theirs", "merge", MERGE, {"model": "base"}, {"campaign": "another"})

    with pytest.raises(Waiting, match="job-1"):  # theirs would be cancelled with their campaign
        train(run, gateway, 1, "finetuning_type: full")
    merged(campaign, "theirs")
    train(run, gateway, 2, "finetuning_type: full")

    assert (gateway.merges, gateway.trained_from) == (1, [MERGED])


def test_a_merge_that_fails_fails_its_loop_alone(
    campaign: StoredCampaign, gateway: Gateway
) -> None:
    run = merging(campaign, gateway)
    merged(campaign, "job-1", JobError(code="merge_failed", message="the disk is full"))

    with pytest.raises(StepFailed, match="the disk is full") as failed:
        train(run, gateway, 1, "finetuning_type: full")
    assert failed.value.failure is Failure.ENVIRONMENT
    with pytest.raises(Waiting, match="job-2"):
        train(run, gateway, 2, "finetuning_type: full")
