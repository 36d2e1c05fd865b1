"""Rewinding and forking campaigns: which steps, records and jobs remain, and what is made again."""

import time
from pathlib import Path

import pytest

from services.api.campaigns.consequences import Cleared
from services.api.campaigns.history import clear_log, fork_campaign, rewind_campaign
from services.api.settings import ApiSettings
from services.campaigns.run.history import best_loop
from services.campaigns.run.records import Proposal
from services.contracts.campaigns.campaigns import ForkCampaign, RewindCampaign
from services.contracts.campaigns.limits import CampaignBudget
from services.contracts.campaigns.loops import StepName
from services.contracts.errors import Conflict, InvalidRequest
from services.contracts.jobs import JobStatus
from services.core.db.tables import CampaignEffectRow, FileRow, IdempotencyRow, ModelRow
from services.jobs.campaign_records import cancel_orphans, request_key
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job, get_job, move_job, request_cancel
from tests.support.campaigns.run import NOWHERE, StoredCampaign, measured

RUNNING = (2, StepName.RUNNING)


@pytest.fixture
def begun(campaign: StoredCampaign) -> StoredCampaign:
    """A campaign whose loop 1 was accepted, and whose loop 2 trains."""
    campaign.create(budget={"loops": 3})
    campaign.step(0, StepName.BASE, measured("base", 2))
    campaign.measured_attempt(1, 9)
    campaign.effect(1, StepName.CODING, "coding.1", response={"answer": "x"}, prompt_tokens=5)
    campaign.step(1, StepName.FEEDBACK, {"accepted": True})
    campaign.step(1, StepName.RECORD, {"best_loop": 1, "best_model": "ft:1"})
    campaign.step(2, StepName.PROPOSAL, {"parent": 1, "hypothesis": "more"})
    campaign.effect(2, StepName.CODING, "coding.1", response={"answer": "y"}, prompt_tokens=7)
    campaign.step(2, StepName.CODING, {"script": "pass", "settings": "a: 1"})
    campaign.training(2, "ftjob-2")
    return campaign


def rewind(campaign: StoredCampaign, loop: int, step: StepName) -> None:
    with campaign.database.write() as session:
        rewind_campaign(session, campaign.id, RewindCampaign(loop=loop, step=step))


def register(campaign: StoredCampaign) -> None:
    """The files and the model that its request names."""
    named = {"filename": "rows.jsonl", "purpose": "evals", "bytes": 9, "created_at": 1.0}
    with campaign.database.write() as session:
        for file in ("file-items", "file-sums"):
            session.add(FileRow(id=file, sha256=file, **named))
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=1.0))


def unrecorded(campaign: StoredCampaign, job_id: str, key: str) -> None:
    """A job that the gateway created for a worker which was killed before it recorded it."""
    labels = {"campaign": campaign.id}
    new = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, {}, metadata=labels)
    row = IdempotencyRow(
        principal="", key=key, fingerprint="", response={"id": job_id}, created_at=time.time()
    )
    with campaign.database.write() as session:
        create_job(session, new)
        session.add(row)


def test_rewinding_clears_later_steps_and_cancels_their_jobs(begun: StoredCampaign) -> None:
    rewind(begun, 2, StepName.CODING)

    assert begun.status_of("ftjob-2") is JobStatus.CANCELLED
    run = begun.run()
    assert run.budget.tokens == 12, "what was paid for still counts"
    assert best_loop(run) == 1
    again = Proposal(parent=0, hypothesis="made again")
    kept = run.step(2, StepName.PROPOSAL, Proposal, lambda: again)
    assert kept.hypothesis == "more"
    assert run.step(2, StepName.CODING, Proposal, lambda: again) == again


def test_a_rewound_step_makes_new_requests(begun: StoredCampaign) -> None:
    run = begun.run()
    keys: list[str] = []

    def note_key() -> CampaignBudget:
        keys.append(run.idempotency_key("train"))
        return CampaignBudget()

    run.step(*RUNNING, CampaignBudget, note_key)
    begun.lost()
    rewind(begun, 2, StepName.RUNNING)
    run = begun.run()
    run.step(*RUNNING, CampaignBudget, note_key)
    begun.lost()
    rewind(begun, 2, StepName.RUNNING)
    run = begun.run()
    run.step(*RUNNING, CampaignBudget, note_key)

    assert len(set(keys)) == 3, "no answer of an earlier request is given again"


def test_a_job_that_was_never_recorded_is_cancelled_with_its_step(begun: StoredCampaign) -> None:
    unrecorded(begun, "ftjob-here", request_key(begun.id, RUNNING, "evaluate.search", 0))
    unrecorded(begun, "ftjob-before", request_key(begun.id, (1, StepName.RUNNING), "train", 0))

    rewind(begun, 2, StepName.RUNNING)

    assert begun.status_of("ftjob-here") is JobStatus.CANCELLED
    assert begun.status_of("ftjob-before") is JobStatus.VALIDATING_FILES


def test_a_job_that_was_never_recorded_is_cancelled_when_its_campaign_has_ended(
    begun: StoredCampaign,
) -> None:
    unrecorded(begun, "ftjob-lost", request_key(begun.id, RUNNING, "evaluate.search", 1))
    unrecorded(begun, "ftjob-of-another", "a key of its own")
    with begun.database.write() as session:
        assert cancel_orphans(session) == 0
        request_cancel(session, begun.id)
    with begun.database.write() as session:
        assert cancel_orphans(session) == 2

    assert begun.status_of("ftjob-lost") is JobStatus.CANCELLED
    assert begun.status_of("ftjob-2") is JobStatus.CANCELLED
    assert begun.status_of("ftjob-of-another") is JobStatus.VALIDATING_FILES, "mere label"


def test_only_reached_steps_of_a_waiting_campaign_can_be_rewound(begun: StoredCampaign) -> None:
    with pytest.raises(InvalidRequest, match="not reached loop 3"):
        rewind(begun, 3, StepName.PROPOSAL)
    begun.claim()
    with pytest.raises(Conflict, match="pause it first"):
        rewind(begun, 2, StepName.CODING)
    with begun.database.write() as session:
        move_job(session, get_job(session, begun.id), JobStatus.CANCELLED, "Cancelled")
    with pytest.raises(Conflict, match="fork it"):
        rewind(begun, 2, StepName.CODING)


def test_a_fork_is_not_answered_as_the_forked_campaign_was(campaign: StoredCampaign) -> None:
    campaign.create(answer_cache={"read": True, "write": True})
    campaign.step(0, StepName.BASE, measured("base", 2))
    register(campaign)
    settings = ApiSettings(home=campaign.settings.home, allowed_endpoints=[NOWHERE])

    with campaign.database.write() as session:
        fork = fork_campaign(session, campaign.id, ForkCampaign(loop=1), settings)

    assert fork.request["answer_cache"] == {"read": False, "write": True}


def test_a_fork_has_the_earlier_steps_and_an_account_of_its_own(begun: StoredCampaign) -> None:
    settings = ApiSettings(home=begun.settings.home, allowed_endpoints=[NOWHERE])
    register(begun)
    body = ForkCampaign(loop=2, step=StepName.CODING, budget=CampaignBudget(loops=5))
    with begun.database.write() as session:
        fork = fork_campaign(session, begun.id, body, settings)
        fork = move_job(session, fork, JobStatus.QUEUED, "The benchmark is valid")
    with begun.database.write() as session:  # the forked one is not to be claimed
        move_job(session, get_job(session, begun.id), JobStatus.PAUSED, "Paused")

    run = begun.run()

    assert run.id == fork.id
    assert run.request.budget.loops == 5
    assert run.budget.tokens == 0
    assert run.finished(2, StepName.PROPOSAL, Proposal).parent == 1
    assert best_loop(run) == 1
    with pytest.raises(KeyError):
        run.finished(2, StepName.CODING, CampaignBudget)
    assert begun.status_of("ftjob-2") is JobStatus.VALIDATING_FILES, "the other one goes on"
    with begun.database.read() as session:
        copied = session.get(CampaignEffectRow, (fork.id, 1, "coding", "coding.1"))
        assert copied is not None
        assert copied.response == {"answer": "x"}


def test_the_log_of_cleared_steps_is_written_again(begun: StoredCampaign, tmp_path: Path) -> None:
    run = begun.run()
    artifacts = run.artifacts
    for loop, name in ((1, StepName.RECORD), (2, StepName.CODING)):
        folder = run.log.path / f"Loop_{loop}" / name.value
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "output.json").write_text("{}")

    clear_log(artifacts, begun.id, Cleared({2: StepName.PROPOSAL}))

    assert (run.log.path / "Loop_1" / "record" / "output.json").exists()
    assert not (run.log.path / "Loop_2" / "coding" / "output.json").exists()
