"""The trial: a training of a few steps that must succeed before a script makes all data."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from services.campaigns.data.benchmark import KnownItems
from services.campaigns.data.training_settings import read_settings, trial_arguments
from services.campaigns.gateway import GatewayRefused
from services.campaigns.llm.conversation import Conversation
from services.campaigns.llm.prompts import code_text
from services.campaigns.run.effects import Effect
from services.campaigns.run.records import Code, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Waiting
from services.campaigns.steps.coding import write_code
from services.campaigns.steps.measurement import parts_of
from services.contracts.campaigns.loops import Failure, StepName
from services.contracts.jobs import JobError, JobStatus
from services.core.db.tables import CampaignEffectRow
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job, fail_job, get_job, move_job
from tests.support.campaigns.run import StoredCampaign, measured
from tests.support.campaigns.scripted_llm import Messages, ScriptedLlm

ANSWER = """```python
import json
rows = [{"instruction": f"Add {n} to 7.", "output": "7" * (n + 1)} for n in range(130)]
json.dump(rows, open("data.json", "w"))
```
```yaml
finetuning_type: full
per_device_train_batch_size: 4
val_size: 0.1
eval_strategy: steps
lerning_rate: 0.1
```"""
TRIAL = f"ftjob-{'0' * 24}"


class Gateway:
    """Keeps what it is asked for; creates trainings in the campaign's database."""

    def __init__(self, campaign: StoredCampaign) -> None:
        self.campaign = campaign
        self.trainings: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.refusal: GatewayRefused | None = None

    async def upload(self, path: Any, *_: object) -> str:
        self.rows = [json.loads(line) for line in path.read_text().splitlines()]
        return "file-trial"

    async def create(self, path: str, body: dict[str, Any], key: str) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.trainings.append(body)
        job_id = f"ftjob-{len(self.trainings) - 1:024x}"
        new = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, body)
        with self.campaign.database.write() as session:
            create_job(session, new)
        return job_id

    async def delete(self, path: str, key: str) -> None:
        self.deleted.append(path)
        raise GatewayRefused("it is not there")  # as after a kill between deletion and record


@pytest.fixture
def llm() -> Iterator[ScriptedLlm]:
    def answer(messages: Messages) -> str:
        return ANSWER

    with ScriptedLlm(answer) as llm:
        yield llm


@pytest.fixture
def gateway(campaign: StoredCampaign, llm: ScriptedLlm) -> Gateway:
    target = {"base_url": f"{llm.origin}/v1", "model": "scripted"}
    limits = {"trial": 60.0}
    budget, cache = {"coding_attempts": 2}, {"write": True}
    campaign.create(llm=target, budget=budget, time_limits=limits, answer_cache=cache)
    campaign.settings = campaign.settings.model_copy(update={"sandbox_url": llm.origin})
    campaign.step(0, StepName.BASE, measured("base", 2))
    return Gateway(campaign)


def coding(campaign: StoredCampaign, gateway: Gateway, run: CampaignRun) -> Code:
    run.gateway = gateway  # type: ignore[assignment]  # a stand-in of the gateway
    items = KnownItems(parts_of(run))
    return run.step(1, StepName.CODING, Code, lambda: write_code(run, Proposal(parent=0), items))


def ended(campaign: StoredCampaign, job_id: str, error: JobError | None = None) -> None:
    with campaign.database.write() as session:
        job = move_job(session, get_job(session, job_id), JobStatus.QUEUED, "valid")
        job = move_job(session, job, JobStatus.RUNNING, "runs")
        if error is not None:
            fail_job(session, job, error)
        else:
            result = {"fine_tuned_model": "ft:base:temper::1"}
            move_job(session, job, JobStatus.SUCCEEDED, "done", result=result)


def is_shared(campaign: StoredCampaign, llm: ScriptedLlm) -> bool:
    """Whether other campaigns get the first answer of the LLM."""
    reader = StoredCampaign(campaign.database, campaign.settings.home)
    reader.id = "reader"
    asked = {"base_url": f"{llm.origin}/v1", "model": "scripted"}
    reader.create(llm=asked, answer_cache={"read": True})
    run = reader.run()

    def ask() -> Code:
        system, message = llm.requests[0]
        Conversation(run, "coding", system["content"]).ask(message["content"])
        return Code()

    run.step(1, StepName.CODING, Code, ask)
    return run.budget.tokens == 0


def test_settings_are_accepted_once_a_few_steps_on_the_longest_debug_rows_have_succeeded(
    campaign: StoredCampaign, gateway: Gateway, llm: ScriptedLlm
) -> None:
    claim = campaign.claim()
    with pytest.raises(Waiting) as waiting:
        coding(campaign, gateway, campaign.run_of(claim))
    assert waiting.value.jobs == (TRIAL,)
    (training,) = gateway.trainings
    assert training["metadata"] == {"campaign": campaign.id, "loop": "1", "purpose": "trial"}
    settings = training["method"]["supervised"]["hyperparameters"]
    assert settings["llamafactory"] == {
        "per_device_train_batch_size": 4,
        "max_steps": 2,
        "save_strategy": "no",
    }
    assert [row["instruction"] for row in gateway.rows] == [
        f"Add {n} to 7." for n in range(30, 130)
    ]
    ended(campaign, TRIAL)

    code = coding(campaign, gateway, campaign.run_of(claim))

    assert (code.failed, code.attempts) == (None, 1)
    assert code.hyperparameters["llamafactory"]["val_size"] == 0.1, "all settings train the model"
    assert gateway.deleted == ["/v1/models/ft%3Abase%3Atemper%3A%3A1", "/v1/files/file-trial"]
    assert len(gateway.trainings) == len(llm.requests) == 1
    assert "lerning_rate" in code_text(code).partition("train.yaml: ")[2], "the LLM is told later"
    assert is_shared(campaign, llm)


def test_a_failed_trial_goes_back_to_the_llm_with_its_cause(
    campaign: StoredCampaign, gateway: Gateway, llm: ScriptedLlm
) -> None:
    claim = campaign.claim()
    for number in range(2):
        with pytest.raises(Waiting):
            coding(campaign, gateway, campaign.run_of(claim))
        error = JobError(code="out_of_memory", message=f"the GPU is full ({number})")
        ended(campaign, f"ftjob-{number:024x}", error)

    code = coding(campaign, gateway, campaign.run_of(claim))

    told = llm.requests[1][-1]["content"]
    assert "the GPU is full (0)" in told
    assert "lerning_rate" in told
    assert len(llm.requests) == 2
    assert code.failed is not None
    assert code.failed.failure is Failure.OUT_OF_MEMORY
    assert "the GPU is full (1)" in code.failed.message
    assert "/v1/files/file-trial" in gateway.deleted
    assert not is_shared(campaign, llm)


def test_a_trial_that_the_gateway_refuses_for_its_memory_is_no_end_of_the_campaign(
    campaign: StoredCampaign, gateway: Gateway
) -> None:
    gateway.refusal = GatewayRefused("needs 99 GB", code="insufficient_memory")

    code = coding(campaign, gateway, campaign.run())

    assert code.failed is not None
    assert (code.failed.failure, code.attempts) == (Failure.OUT_OF_MEMORY, 2)
    assert "needs 99 GB" in code.failed.message


def test_a_trial_is_cancelled_when_it_has_run_too_long_and_not_while_it_waits(
    campaign: StoredCampaign, gateway: Gateway, llm: ScriptedLlm
) -> None:
    claim = campaign.claim()
    for _ in range(2):
        with pytest.raises(Waiting):
            coding(campaign, gateway, campaign.run_of(claim))
    assert campaign.status_of(TRIAL) is JobStatus.VALIDATING_FILES
    campaign.started(time.time() - 61.0, TRIAL)

    with pytest.raises(Waiting):
        coding(campaign, gateway, campaign.run_of(claim))

    assert campaign.status_of(TRIAL) is JobStatus.CANCELLED
    with pytest.raises(Waiting):  # for the trial of the next answer
        coding(campaign, gateway, campaign.run_of(claim))
    assert "took more than 60 s" in llm.requests[1][-1]["content"]


def test_data_of_final_items_alone_are_not_tried(
    campaign: StoredCampaign, gateway: Gateway, llm: ScriptedLlm
) -> None:
    run = campaign.run()
    final = [item.question for item in parts_of(run).final]
    llm.answer = lambda _: ANSWER.replace(
        'rows = [{"instruction": f"Add {n} to 7.", "output": "7" * (n + 1)} for n in range(130)]',
        f'rows = [{{"instruction": each, "output": "?"}} for each in {final!r}]',
    )

    code = coding(campaign, gateway, run)

    assert code.failed is None
    assert not gateway.trainings


def test_the_arguments_of_a_trial_are_accepted_whatever_checkpoints_were_asked_for() -> None:
    text = """
finetuning_type: lora
lora_rank: 8
val_size: 0.2
eval_strategy: steps
eval_steps: 10
save_steps: 10
load_best_model_at_end: true
early_stopping_steps: 3
logging_steps: 5
max_steps: 400
"""
    settings = read_settings(text).hyperparameters
    trial = trial_arguments(settings.llamafactory)

    settings.model_copy(update={"llamafactory": trial}).check_library_arguments(
        has_validation=False
    )
    assert trial == {"lora_rank": 8, "max_steps": 2, "save_strategy": "no"}


def test_jobs_of_trials_are_recorded_with_their_step(
    campaign: StoredCampaign, gateway: Gateway
) -> None:
    with pytest.raises(Waiting):
        coding(campaign, gateway, campaign.run())

    with campaign.database.read() as session:
        effect = session.get(CampaignEffectRow, (campaign.id, 1, "coding", "trial-1"))
    assert effect is not None
    assert Effect(effect.response, effect.job_id).job_id == TRIAL, "its GPU hours count"
