"""Fine-tuning jobs through the unmodified ``openai`` package."""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from openai.types.fine_tuning import FineTuningJob

pytestmark = pytest.mark.usefixtures("worker")

Wait = Callable[[str, str], FineTuningJob]


class Submit:
    """Creates jobs whose work is the script named by their suffix."""

    def __init__(self, client: openai.OpenAI, training_file: str) -> None:
        self._client = client
        self._file = training_file

    def __call__(self, script: str, **fields: Any) -> FineTuningJob:
        return self._client.fine_tuning.jobs.create(
            model="base", training_file=self._file, suffix=script, **fields
        )


@pytest.fixture
def submit(client: openai.OpenAI, training_file: str) -> Submit:
    return Submit(client, training_file)


def test_a_job_has_the_openai_fields(submit: Submit, training_file: str) -> None:
    before = int(time.time())

    job = submit(
        "succeed",
        seed=11,
        method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}},
    )

    assert job.id.startswith("ftjob-")
    assert (job.object, job.model, job.training_file) == ("fine_tuning.job", "base", training_file)
    assert (job.status, job.seed) == ("validating_files", 11)
    assert before <= job.created_at <= time.time() + 1
    assert (job.error, job.finished_at, job.fine_tuned_model) == (None, None, None)
    assert job.hyperparameters.n_epochs == 2
    assert job.hyperparameters.batch_size == "auto"
    assert job.method is not None
    assert job.method.type == "supervised"
    assert (job.result_files, job.integrations) == ([], None)


def test_a_job_past_its_deadline_fails_with_that_cause(submit: Submit, wait_until: Wait) -> None:
    job = submit("forever", extra_body={"deadline_seconds": 1})
    deadline: int = job.deadline_at  # type: ignore[attr-defined]  # a field of Temper's own
    assert 0 <= deadline - job.created_at <= 2

    failed = wait_until(job.id, "failed")

    assert failed.error is not None
    assert failed.error.code == "deadline_exceeded"
    assert failed.error.param == "deadline_seconds"


def test_a_dpo_job_has_openais_method(submit: Submit) -> None:
    hyperparameters = {
        "beta": 0.2,
        "batch_size": 4,
        "learning_rate_multiplier": 0.5,
        "n_epochs": 2,
    }

    job = submit("succeed", method={"type": "dpo", "dpo": {"hyperparameters": hyperparameters}})

    assert job.method is not None
    assert job.method.dpo is not None
    assert job.method.dpo.hyperparameters is not None
    assert job.method.type == "dpo"
    assert job.method.dpo.hyperparameters.beta == 0.2
    assert (job.hyperparameters.n_epochs, job.hyperparameters.batch_size) == (2, 4)


@pytest.mark.parametrize("method", ["dpo", "kto", "reward_model", "pretraining"])
def test_an_offline_method_needs_no_settings(submit: Submit, method: str) -> None:
    job = submit("succeed", extra_body={"method": {"type": method}})

    assert job.hyperparameters.n_epochs == "auto"


@pytest.mark.parametrize(
    ("method", "param", "message"),
    [
        (
            {"type": "dpo", "dpo": {"hyperparameters": {"loss": "orpo", "label_smoothing": 0.1}}},
            "method.dpo.hyperparameters.label_smoothing",
            "label_smoothing has an effect with loss sigmoid only",
        ),
        (
            {"type": "kto", "kto": {"hyperparameters": {"reference_model": "nowhere"}}},
            "method.kto.hyperparameters.reference_model",
            "no model 'nowhere'",
        ),
        (
            {"type": "dpo", "dpo": {"hyperparameters": {"llamafactory": {"kto_chosen_weight": 2}}}},
            "method.dpo.hyperparameters.llamafactory.kto_chosen_weight",
            "it has an effect in stage kto, not in dpo",
        ),
        (
            {
                "type": "supervised",
                "supervised": {
                    "hyperparameters": {"generation": {"grader": {"type": "regex", "pattern": "("}}}
                },
            },
            "method.supervised.hyperparameters.generation.grader.pattern",
            "pattern",
        ),
        (
            {"type": "supervised", "supervised": {"hyperparameters": {"generation": {}}}},
            "method.supervised.hyperparameters.generation",
            "generation needs a validation file",
        ),
    ],
)
def test_a_setting_that_cannot_take_effect_is_refused(
    submit: Submit, method: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=message) as raised:
        submit("succeed", extra_body={"method": method})

    assert raised.value.param == param


def test_a_job_runs_to_success(client: openai.OpenAI, submit: Submit, wait_until: Wait) -> None:
    job = wait_until(submit("succeed").id, "succeeded")

    assert job.trained_tokens == 50
    assert job.finished_at is not None
    assert job.finished_at >= job.created_at
    assert job.to_dict()["progress"] == {
        "step": 5,
        "total_steps": 5,
        "percent": 100.0,
        "eta_seconds": None,
    }
    assert job.to_dict()["attempt"] == 1


def test_top_level_hyperparameters_are_accepted(submit: Submit) -> None:
    job = submit("succeed", hyperparameters={"n_epochs": 3, "batch_size": 4})

    assert (job.hyperparameters.n_epochs, job.hyperparameters.batch_size) == (3, 4)


@pytest.mark.parametrize(
    ("script", "code", "message", "param"),
    [
        ("fail", "bad_data", "row 3: nothing there", "training_file"),
        ("invalid", "bad_data", "row 3: nothing there", "training_file"),
        (
            "crash",
            "process_killed",
            "the process was killed by SIGSEGV; 3 attempts were lost without progress",
            None,
        ),
    ],
)
def test_a_failed_job_reports_its_error(
    submit: Submit, wait_until: Wait, script: str, code: str, message: str, param: str | None
) -> None:
    job = wait_until(submit(script).id, "failed")

    assert job.error is not None
    assert (job.error.code, job.error.message, job.error.param) == (code, message, param)


def test_events_are_paged_newest_first_without_gap_or_repeat(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    job = wait_until(submit("succeed").id, "succeeded")

    all_at_once = client.fine_tuning.jobs.list_events(job.id, limit=100).data
    paged = list(client.fine_tuning.jobs.list_events(job.id, limit=3))

    assert [event.id for event in paged] == [event.id for event in all_at_once]
    assert len({event.id for event in paged}) == len(paged)
    assert paged[0].message == "Succeeded"
    assert paged[-1].message.startswith("Job created")
    assert {event.level for event in paged} == {"info"}
    losses = [event.data["loss"] for event in paged if event.type == "metrics"]  # type: ignore[index]  # metrics always have data
    assert losses == sorted(losses)  # newest first, and the loss falls


def test_checkpoints_are_paged_newest_first(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    job = wait_until(submit("succeed").id, "succeeded")

    checkpoints = list(client.fine_tuning.jobs.checkpoints.list(job.id, limit=2))

    assert [checkpoint.step_number for checkpoint in checkpoints] == [5, 4, 3, 2, 1]
    newest = checkpoints[0]
    assert newest.object == "fine_tuning.job.checkpoint"
    assert newest.fine_tuning_job_id == job.id
    assert newest.fine_tuned_model_checkpoint == f"{job.id}:step-5"
    assert newest.metrics.train_loss == pytest.approx(0.2)


def test_permissions_of_a_checkpoint_are_granted_listed_and_revoked(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    job = wait_until(submit("succeed").id, "succeeded")
    permissions = client.fine_tuning.checkpoints.permissions

    for checkpoint in (f"{job.id}:step-5", f"{job.id}:step-4"):
        assert list(permissions.list(checkpoint)) == []
        granted = permissions.create(checkpoint, project_ids=["proj_a", "proj_b", "proj_a"]).data
        again = permissions.create(checkpoint, project_ids=["proj_c", "proj_a"]).data

        assert [given.project_id for given in granted] == ["proj_a", "proj_b"]
        assert again[1].id == granted[0].id
        assert [given.project_id for given in permissions.list(checkpoint, limit=2)] == [
            "proj_c",
            "proj_b",
            "proj_a",
        ]
        found = permissions.list(checkpoint, project_id="proj_b", order="ascending").data
        assert [given.id for given in found] == [granted[1].id]

        gone = permissions.delete(granted[1].id, fine_tuned_model_checkpoint=checkpoint)
        assert (gone.id, gone.deleted) == (granted[1].id, True)
        left = list(permissions.list(checkpoint, order="ascending", limit=1))
        assert [given.project_id for given in left] == ["proj_a", "proj_c"]
        with pytest.raises(openai.NotFoundError, match="has no permission"):
            permissions.delete(granted[1].id, fine_tuned_model_checkpoint=checkpoint)

    with pytest.raises(openai.NotFoundError, match="no model"):
        permissions.create(f"{job.id}:step-6", project_ids=["proj_a"])


def test_jobs_are_paged_and_filtered_by_metadata(client: openai.OpenAI, submit: Submit) -> None:
    label = uuid.uuid4().hex
    ids = [submit("succeed", metadata={"suite": label, "n": str(n)}).id for n in range(3)]
    submit("succeed", metadata={"suite": "another"})

    found = list(client.fine_tuning.jobs.list(metadata={"suite": label}, limit=2))
    one = client.fine_tuning.jobs.list(metadata={"suite": label, "n": "1"}).data

    assert [job.id for job in found] == ids[::-1]
    assert found[0].metadata == {"suite": label, "n": "2"}
    assert [job.id for job in one] == [ids[1]]


def test_jobs_of_all_kinds_are_filtered_by_kind_status_and_metadata(
    http: httpx.Client, submit: Submit, wait_until: Wait
) -> None:
    label = uuid.uuid4().hex
    job = wait_until(submit("succeed", metadata={"suite": label}).id, "succeeded")

    def found(**query: str) -> list[str]:
        page = http.get("/v1/jobs", params={"metadata": f"suite={label}", **query}).json()
        return [job["id"] for job in page["data"]]

    assert found() == found(kind="fine_tuning", status="succeeded") == [job.id]
    assert found(kind="evaluation") == found(status="failed") == []


def test_a_running_job_is_cancelled(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    job_id = submit("forever").id
    wait_until(job_id, "running")

    requested = client.fine_tuning.jobs.cancel(job_id)

    assert requested.to_dict()["cancel_requested_at"] is not None
    wait_until(job_id, "cancelled")
    assert client.fine_tuning.jobs.cancel(job_id).status == "cancelled"  # twice is allowed


def test_a_finished_job_cannot_be_cancelled(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    job = wait_until(submit("succeed").id, "succeeded")

    with pytest.raises(openai.ConflictError) as caught:
        client.fine_tuning.jobs.cancel(job.id)
    assert caught.value.code == "job_already_final"


def test_a_running_job_is_paused_and_resumed_from_its_last_step(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    job_id = submit("forever").id
    wait_until(job_id, "running")

    requested = client.fine_tuning.jobs.pause(job_id).to_dict()
    assert (requested["status"], requested["phase"]) == ("running", "pausing")
    assert requested["pause_requested_at"] is not None
    paused = wait_until(job_id, "paused").to_dict()
    assert (paused["phase"], paused["pause_requested_at"]) == (None, None)
    step = newest_checkpoint(client, job_id)

    assert client.fine_tuning.jobs.resume(job_id).to_dict()["status"] == "queued"
    wait_until(job_id, "running")
    client.fine_tuning.jobs.pause(job_id)
    wait_until(job_id, "paused")
    assert newest_checkpoint(client, job_id) > step
    client.fine_tuning.jobs.cancel(job_id)

    messages = [event.message for event in client.fine_tuning.jobs.list_events(job_id, limit=100)]
    assert f"Paused at step {step} of 1000" in messages
    metrics = [m for m in messages[::-1] if m.startswith("Step ")]
    assert [int(m.split()[1].strip(":")) for m in metrics] == list(range(1, len(metrics) + 1))
    assert messages[0] == "Cancelled while paused"


def newest_checkpoint(client: openai.OpenAI, job_id: str) -> int:
    return client.fine_tuning.jobs.checkpoints.list(job_id, limit=1).data[0].step_number


def test_a_pause_in_a_wrong_state_is_a_conflict(
    client: openai.OpenAI, submit: Submit, wait_until: Wait
) -> None:
    done = wait_until(submit("succeed").id, "succeeded").id
    running = submit("forever").id
    wait_until(running, "running")

    assert conflict(client.fine_tuning.jobs.pause, done) == "job_already_final"
    assert conflict(client.fine_tuning.jobs.resume, running) == "job_not_paused"
    client.fine_tuning.jobs.pause(running)
    wait_until(running, "paused")
    assert conflict(client.fine_tuning.jobs.pause, running) == "job_already_paused"
    client.fine_tuning.jobs.cancel(running)


def conflict(call: Callable[[str], FineTuningJob], job_id: str) -> str | None:
    with pytest.raises(openai.ConflictError) as caught:
        call(job_id)
    return caught.value.code


def test_a_finished_job_is_deleted_with_its_files(
    http: httpx.Client, submit: Submit, wait_until: Wait
) -> None:
    job_id = submit("succeed").id
    early = http.delete(f"/v1/jobs/{job_id}")
    wait_until(job_id, "succeeded")

    deleted = http.delete(f"/v1/fine_tuning/jobs/{job_id}")

    assert early.status_code == 409
    assert deleted.json() == {"id": job_id, "object": "fine_tuning.job", "deleted": True}
    for path in ("", "/events", "/artifacts"):
        assert http.get(f"/v1/jobs/{job_id}{path}").status_code == 404
    assert http.delete(f"/v1/jobs/{job_id}").status_code == 404


def test_a_failed_job_is_retried_on_request(
    http: httpx.Client, submit: Submit, wait_until: Wait
) -> None:
    job_id = wait_until(submit("fail").id, "failed").id

    answer = http.post(f"/v1/fine_tuning/jobs/{job_id}/retry")

    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["error"]) == ("queued", None)
    job = wait_until(job_id, "failed")
    assert job.to_dict()["attempt"] == 2
    assert http.post(f"/v1/jobs/{submit('succeed').id}/retry").status_code == 409


def test_a_retried_create_returns_the_first_job(client: openai.OpenAI, submit: Submit) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}

    first = submit("succeed", extra_headers=headers)
    again = submit("succeed", extra_headers=headers)

    assert again.id == first.id
    assert again.to_dict() == first.to_dict()
    with pytest.raises(openai.ConflictError) as caught:
        submit("fail", extra_headers=headers)
    assert caught.value.code == "idempotency_key_reused"
    assert submit("succeed", extra_headers={"Idempotency-Key": str(uuid.uuid4())}).id != first.id


def test_concurrent_equal_creates_make_one_job(client: openai.OpenAI, submit: Submit) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    label = {"suite": uuid.uuid4().hex}

    with ThreadPoolExecutor(8) as pool:
        jobs = pool.map(
            lambda _: submit("succeed", metadata=label, extra_headers=headers), range(8)
        )

    made = [job.id for job in client.fine_tuning.jobs.list(metadata=label)]
    assert {job.id for job in jobs} == set(made)
    assert len(made) == 1


def test_an_integration_is_accepted_and_shown_as_openai_writes_it(submit: Submit) -> None:
    wandb = {"project": "p", "entity": "e", "name": "n", "tags": ["a", "b"]}

    job = submit("succeed", integrations=[{"type": "wandb", "wandb": wandb}])

    assert job.integrations is not None
    assert [each.to_dict() for each in job.integrations] == [{"type": "wandb", "wandb": wandb}]


@pytest.mark.parametrize(
    ("integration", "param"),
    [
        ({"type": "wandb", "wandb": {}}, "integrations[0].wandb.project"),
        (
            {"type": "wandb", "wandb": {"project": "p", "host": "http://x"}},
            "integrations[0].wandb.host",
        ),
        ({"type": "other", "wandb": {"project": "p"}}, "integrations[0].type"),
    ],
)
def test_an_unknown_integration_is_rejected(
    submit: Submit, integration: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        submit("succeed", extra_body={"integrations": [integration]})

    assert raised.value.param == param
