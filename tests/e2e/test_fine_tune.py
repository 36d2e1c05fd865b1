"""From an uploaded file to an evaluated model, with a tiny but real model."""

import json
from contextlib import suppress
from pathlib import Path

import httpx
import openai
import psutil
import pytest

from services.contracts.data.files import FilePurpose
from services.contracts.engine import VllmOptions
from services.contracts.evaluation.evaluations import CreateEvaluation, Evaluation
from services.contracts.jobs import JobStatus
from services.contracts.models.registered import ModelKind
from services.contracts.rewards.graders import RegexGrader
from services.contracts.sampling import Sampling
from services.contracts.serving import DeployModel
from services.contracts.training.fine_tuning import (
    CreateFineTuningJob,
    FineTuningJob,
    Method,
)
from services.contracts.training.offline import SupervisedHyperparameters, SupervisedMethod
from services.contracts.training.optimizer import LoraSettings
from tests.e2e.conftest import Platform

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(900)]

LIMIT_SECONDS = 600.0


def train(platform: Platform, file_id: str, **fields: object) -> FineTuningJob:
    hyperparameters = SupervisedHyperparameters(
        n_epochs=1,
        batch_size=32,
        learning_rate=1e-3,
        max_seq_length=128,
        lora=LoraSettings(rank=4),
        llamafactory={"save_steps": 5},
    )
    request = {
        "model": "tiny",
        "training_file": file_id,
        "seed": 1,
        "method": Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
        **fields,
    }
    job = platform.temper.fine_tuning.create(CreateFineTuningJob.model_validate(request))
    platform.temper.jobs.wait(job.id, timeout=LIMIT_SECONDS)
    return platform.temper.fine_tuning.get(job.id)


def evaluate(platform: Platform, model: str, file_id: str) -> Evaluation:
    request = CreateEvaluation(
        model=model,
        file=file_id,
        grader=RegexGrader(pattern="."),
        sampling=Sampling(max_tokens=8),
    )
    job = platform.temper.evaluations.create(request)
    platform.temper.jobs.wait(job.id, timeout=LIMIT_SECONDS)
    return platform.temper.evaluations.get(job.id)


@pytest.fixture(scope="module")
def training_file(platform: Platform) -> str:
    return platform.temper.files.upload(platform.data / "train.jsonl", FilePurpose.FINE_TUNE).id


@pytest.fixture(scope="module")
def adapter(platform: Platform, training_file: str) -> FineTuningJob:
    job = train(platform, training_file, suffix="sums")
    assert job.status is JobStatus.SUCCEEDED, job.error
    return job


@pytest.mark.smoke
def test_a_fine_tune_registers_a_model_with_its_lineage(
    platform: Platform, adapter: FineTuningJob, training_file: str
) -> None:
    assert adapter.fine_tuned_model is not None
    model = platform.temper.models.get(adapter.fine_tuned_model)

    assert (model.kind, model.base) == (ModelKind.ADAPTER, "tiny")
    assert model.id.startswith("ft:tiny:temper:sums:")
    lineage = model.lineage
    assert lineage is not None
    assert (lineage.job_id, lineage.parent, lineage.seed) == (adapter.id, "tiny", 1)
    assert lineage.training_file_sha256 == platform.temper.files.get(training_file).sha256
    assert lineage.arguments["lora_rank"] == 4
    assert {"llamafactory", "transformers", "torch"} <= lineage.library_versions.keys()
    assert adapter.trained_tokens


@pytest.mark.smoke
def test_events_show_progress_metrics_and_checkpoints(
    platform: Platform, adapter: FineTuningJob
) -> None:
    client = openai.OpenAI(base_url=f"{platform.url}/v1", api_key="none")

    events = client.fine_tuning.jobs.list_events(adapter.id, limit=100)
    metrics = [event.data for event in events if event.type == "metrics"]
    checkpoints = client.fine_tuning.jobs.checkpoints.list(adapter.id).data

    newest = metrics[0]
    assert isinstance(newest, dict)
    assert {"loss", "learning_rate", "tokens_per_second"} <= newest.keys()
    assert [checkpoint.step_number for checkpoint in checkpoints] == [13, 10, 5]


def ask(client: openai.OpenAI, model: str) -> str:
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "12+34="}],
        max_tokens=8,
        temperature=0,
        timeout=LIMIT_SECONDS,
    )
    assert answer.model == model
    return str(answer.choices[0].message.content)


def engine_of(platform: Platform, serving: str) -> psutil.Process:
    """The vLLM process of a serving."""
    folder = str(platform.home / "jobs" / serving)
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == folder and any("vllm" in part for part in process.cmdline()[:4]):
                return process
    raise AssertionError(f"no engine in {folder}")


def test_models_of_one_base_share_an_engine_that_survives_a_crash(
    platform: Platform, adapter: FineTuningJob
) -> None:
    client = openai.OpenAI(base_url=f"{platform.url}/v1", api_key="none", max_retries=4)
    newest = client.fine_tuning.jobs.checkpoints.list(adapter.id).data[0]
    names = [newest.fine_tuned_model_checkpoint, str(adapter.fine_tuned_model), "tiny"]
    # Otherwise each adapter would be merged, and have an engine of its own: there is no GPU.
    room = DeployModel(engine=VllmOptions(max_lora_rank=16))
    platform.temper.servings.deploy("tiny", room)

    answers = [ask(client, name) for name in names]
    [serving] = platform.temper.servings.page().data
    engine_of(platform, serving.id).kill()
    after = [ask(client, name) for name in names]

    assert answers == after
    assert answers[2] != answers[1]  # the adapter is applied
    again = platform.temper.servings.get(serving.id)
    assert (again.model, again.status, again.attempt) == ("tiny", JobStatus.RUNNING, 2)
    assert newest.metrics.step == newest.step_number
    assert newest.metrics.train_loss is not None


@pytest.mark.smoke
def test_an_adapter_can_be_evaluated_on_its_base(
    platform: Platform, adapter: FineTuningJob
) -> None:
    held_out = platform.temper.files.upload(platform.data / "heldout.jsonl", FilePurpose.EVALS)

    evaluation = evaluate(platform, str(adapter.fine_tuned_model), held_out.id)

    assert evaluation.status is JobStatus.SUCCEEDED, evaluation.error
    metrics = evaluation.metrics
    assert metrics is not None
    assert (metrics.samples, metrics.errors) == (40, 0)
    assert metrics.ci95[0] <= metrics.accuracy <= metrics.ci95[1]
    page = httpx.get(
        f"{platform.url}/v1/evaluations/{evaluation.id}/results?limit=100", timeout=60
    ).json()
    assert sorted(row["index"] for row in page["data"]) == list(range(40))

    again = evaluate(platform, str(adapter.fine_tuned_model), held_out.id)

    assert (again.cached_from, again.metrics) == (evaluation.id, metrics)


def test_training_can_continue_from_an_adapter(
    platform: Platform, adapter: FineTuningJob, training_file: str
) -> None:
    job = train(platform, training_file, model=adapter.fine_tuned_model, suffix="more")

    assert job.status is JobStatus.SUCCEEDED, job.error
    model = platform.temper.models.get(str(job.fine_tuned_model))
    assert model.id.startswith("ft:tiny:temper:more:")
    assert model.base == "tiny"
    assert model.lineage is not None
    assert model.lineage.parent == adapter.fine_tuned_model


def test_the_openai_package_trains_a_model_by_dpo(platform: Platform, tmp_path: Path) -> None:
    client = openai.OpenAI(base_url=f"{platform.url}/v1", api_key="none")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(preference(number)) + "\n" for number in range(16)))
    file = client.files.create(file=pairs, purpose="fine-tune")

    created = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=file.id,
        seed=1,
        method={
            "type": "dpo",
            "dpo": {"hyperparameters": {"beta": 0.2, "batch_size": 8, "n_epochs": 2}},
        },
    )
    platform.temper.jobs.wait(created.id, timeout=LIMIT_SECONDS)

    job = client.fine_tuning.jobs.retrieve(created.id)
    assert job.status == "succeeded", job.error
    assert str(job.fine_tuned_model).startswith("ft:tiny:")
    events = client.fine_tuning.jobs.list_events(job.id, limit=100)
    metrics = [json.dumps(event.data) for event in events if event.type == "metrics"]
    assert metrics
    assert all("rewards/margins" in entry and "logps/chosen" in entry for entry in metrics)
    table = client.files.content(job.result_files[0]).text.splitlines()
    assert table[0].startswith("step,train_loss")
    assert len(table) == 5


def preference(number: int) -> dict[str, object]:
    """A row in OpenAI's preference format: the sum is preferred to another number."""
    question = {"role": "user", "content": f"{number}+30="}
    answers = (number + 30, number + 40)
    chosen, rejected = ([{"role": "assistant", "content": str(answer)}] for answer in answers)
    return {
        "input": {"messages": [question]},
        "preferred_output": chosen,
        "non_preferred_output": rejected,
    }


def test_an_invalid_row_fails_the_job_before_training_and_is_named_by_number(
    platform: Platform, tmp_path: Path
) -> None:
    rows = (platform.data / "train.jsonl").read_text().splitlines()[:30]
    broken = json.loads(rows[16])
    del broken["messages"][1]["content"]
    rows[16] = json.dumps(broken)
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(rows))
    file = platform.temper.files.upload(path, FilePurpose.FINE_TUNE)

    job = train(platform, file.id)

    assert (job.status, job.attempt) == (JobStatus.FAILED, 0)
    assert job.error is not None
    assert "row 17: messages[1].content is missing" in job.error.message
    assert job.error.param == "training_file"
