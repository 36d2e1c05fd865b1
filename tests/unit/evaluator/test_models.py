"""How the jobs that serve a model are told of it."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from services.contracts.batches.batches import BatchOutput, BatchResult, CreateBatch
from services.contracts.errors import InvalidRequest, JobFailed, NotFound
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.jobs import JobKind, JobRequest, JobStatus
from services.contracts.models.registered import Lineage
from services.contracts.rollouts.rollouts import CreateRollout
from services.contracts.serving import CreateServing
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import FileRow, JobRow, ModelRow
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import NEEDS_DEVICE, Reporter
from services.core.process.runtimes import RuntimeMissing
from services.datasets.append_log import read_records
from services.evaluator.batch.child import send_batch
from services.evaluator.batch.handler import BatchHandler
from services.evaluator.batch.spec import BatchSpec
from services.evaluator.child_process import ChildContext
from services.evaluator.evaluation.handler import EvaluationHandler
from services.evaluator.rollout.handler import RolloutHandler
from services.evaluator.serve.handler import ServeHandler
from services.evaluator.serving import LocalModel
from services.inference.relay_protocol import RelayEndpoint, publish_endpoint, withdraw_endpoint
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job
from services.jobs.worker.settings import WorkerSettings
from tests.support.runtime.stand_in import add_runtime
from tests.unit.evaluator.chat_server import ChatServer, Reply

REQUEST = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions"}
JOBS: dict[JobKind, tuple[Callable[[WorkerSettings], Any], type[JobRequest], dict[str, Any]]] = {
    JobKind.BATCH: (
        BatchHandler,
        CreateBatch,
        {
            **{"input_file_id": "file-1", "endpoint": "/v1/chat/completions"},
            "completion_window": "24h",
        },
    ),
    JobKind.EVALUATION: (EvaluationHandler, CreateEvaluation, {"file": "file-1"}),
    JobKind.ROLLOUT: (RolloutHandler, CreateRollout, {"prompts": [{"question": "Why?"}]}),
    JobKind.SERVE: (ServeHandler, CreateServing, {}),
}
KINDS = pytest.mark.parametrize("kind", JOBS)


@pytest.fixture
def settings(tmp_path: Path, database: Database) -> WorkerSettings:
    """A home with a base, an adapter that vLLM applies and one that must be merged."""
    add_runtime(tmp_path / "runtimes", "vllm")
    artifacts = Artifacts(tmp_path)
    for name in ("base", "applied", "merged"):
        (tmp_path / "models" / name).mkdir(parents=True)
    now = time.time()
    lineage = Lineage(job_id="ftjob-1", parent="base", library_versions={}, needs_merge=True)
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=now))
        session.add(
            ModelRow(id="applied", kind="adapter", base="base", folder="applied", created_at=now)
        )
        session.add(
            ModelRow(
                id="merged",
                kind="adapter",
                base="base",
                folder="merged",
                lineage=lineage.model_dump(mode="json"),
                created_at=now,
            )
        )
        session.add(
            FileRow(
                id="file-1",
                filename="file.jsonl",
                purpose="batch",
                bytes=1,
                sha256="0" * 64,
                created_at=now,
            )
        )
    artifacts.file("file-1").parent.mkdir()
    return WorkerSettings(home=tmp_path, runtimes=tmp_path / "runtimes")


def model_of_job(
    database: Database, settings: WorkerSettings, kind: JobKind, model: str
) -> LocalModel:
    """The model as the specification of the job's child has it."""
    handler, contract, fields = JOBS[kind]
    if kind is JobKind.BATCH:  # its requests name the model
        line = json.dumps(
            REQUEST | {"body": {"model": model, "messages": [{"role": "user", "content": "Why?"}]}}
        )
        Artifacts(settings.home).file("file-1").write_text(f"{line}\n")
    else:
        fields = {**fields, "model": model}
    specification = specification_of(
        database, handler(settings), kind, contract(**fields), settings
    )
    return LocalModel.model_validate_json(json.dumps(specification["model"]))


def specification_of(
    database: Database, handler: Any, kind: JobKind, request: JobRequest, settings: WorkerSettings
) -> dict[str, Any]:
    """What the handler tells the job's child."""
    with database.write() as session:
        job = create_job(session, NewJob.of(kind, request, 0))
    folder = settings.home / "jobs" / job.id
    folder.mkdir(parents=True)
    handler.work(database, Claim(job, ClaimStage.WORK, ("cpu-host-0",)), folder)
    found: dict[str, Any] = json.loads((folder / "spec.json").read_bytes())
    return found


def test_tools_of_an_evaluation_are_called_in_several_turns(
    database: Database, settings: WorkerSettings
) -> None:
    def told(**fields: Any) -> dict[str, Any]:
        request = CreateEvaluation.model_validate({"model": "base", "file": "file-1", **fields})
        handler = EvaluationHandler(settings)
        return specification_of(database, handler, JobKind.EVALUATION, request, settings)

    plain = told()
    with_tools = told(tools=[{"class_name": "sandbox"}], multi_turn={"max_tool_calls": 2})

    assert (plain["tools"], plain["multi_turn"]) == ([], None)
    assert [tool["class_name"] for tool in with_tools["tools"]] == ["sandbox"]
    assert with_tools["multi_turn"]["multi_turn_enable"] is True
    assert with_tools["multi_turn"]["max_tool_calls"] == 2


@KINDS
@pytest.mark.parametrize("accelerator", ["cpu", "cuda"])
def test_an_adapter_that_vllm_applies_badly_or_not_at_all_is_merged_by_every_kind_of_job(
    database: Database, settings: WorkerSettings, kind: JobKind, accelerator: str
) -> None:
    add_runtime(settings.home / "runtimes", "training")
    add_runtime(settings.home / "runtimes", "vllm", accelerator=accelerator)

    merged = model_of_job(database, settings, kind, "merged")
    applied = model_of_job(database, settings, kind, "applied")

    assert merged.merging_python == settings.runtimes_folder / "training" / "bin" / "python"
    assert merged.adapter is not None
    assert merged.adapter.path == settings.models_folder / "merged"
    # Without a GPU its kernels gather a matrix for every token.
    assert applied.merging_python == (merged.merging_python if accelerator == "cpu" else None)
    assert model_of_job(database, settings, kind, "base").merging_python is None


@KINDS
def test_without_the_runtime_that_merges_the_job_fails_naming_it(
    database: Database, settings: WorkerSettings, kind: JobKind
) -> None:
    with pytest.raises(RuntimeMissing, match="'training' is not installed"):
        model_of_job(database, settings, kind, "merged")

    assert model_of_job(database, settings, kind, "applied").merging_python is None


@pytest.mark.parametrize(
    ("architecture", "endpoint", "refusal"),
    [
        ("BertModel", "/v1/embeddings", None),
        ("Qwen3ForCausalLM", "/v1/embeddings", "'base' generates text"),
        ("BertModel", "/v1/completions", "'base' computes embeddings"),
    ],
)
def test_a_batch_asks_a_model_for_what_it_does(
    database: Database,
    settings: WorkerSettings,
    architecture: str,
    endpoint: str,
    refusal: str | None,
) -> None:
    config = {"architectures": [architecture]}
    (settings.home / "models" / "base" / "config.json").write_text(json.dumps(config))
    job = batch_job(database, endpoint=endpoint)

    if refusal is not None:
        with pytest.raises(InvalidRequest, match=refusal):
            needs_device(database, settings, job)
    else:
        assert needs_device(database, settings, job)


def batch_job(database: Database, **fields: Any) -> Job:
    request = CreateBatch.model_validate({**JOBS[JobKind.BATCH][2], **fields})
    with database.write() as session:
        return create_job(session, NewJob.of(JobKind.BATCH, request, None))


def needs_device(
    database: Database, settings: WorkerSettings, job: Job, model: str = "base"
) -> bool:
    """What the handler says of a valid batch for a model."""
    with database.read() as session:
        return BatchHandler(settings).needs_device(
            session, job, {"input_file_id": {"model": model}}
        )


def serving(database: Database, settings: WorkerSettings, url: str | None) -> Path:
    """The folder of a serving of the base that runs, with the address of its relay."""
    request = CreateServing(model="base")
    with database.write() as session:
        job = create_job(session, NewJob.of(JobKind.SERVE, request, None))
        row = session.scalars(select(JobRow).where(JobRow.id == job.id)).one()
        row.status = JobStatus.RUNNING.value
    folder = settings.home / "jobs" / job.id
    folder.mkdir(parents=True)
    if url is not None:
        publish_endpoint(folder, RelayEndpoint(epoch=job.epoch, url=url, secret="s"))
    return folder


@pytest.mark.parametrize(
    ("url", "model", "fields", "needed"),
    [
        ("http://127.0.0.1:9", "base", {}, False),
        ("http://127.0.0.1:9", "applied", {}, False),
        (None, "base", {}, True),  # its engine is starting
        ("http://127.0.0.1:9", "merged", {}, True),  # another engine serves it
        ("http://127.0.0.1:9", "base", {"engine": {"max_model_len": 99}}, True),
        ("http://127.0.0.1:9", "base", {"gpus": 1}, True),
    ],
)
def test_a_batch_needs_no_device_where_a_serving_of_its_model_runs(
    database: Database,
    settings: WorkerSettings,
    url: str | None,
    model: str,
    fields: dict[str, Any],
    needed: bool,
) -> None:
    serving(database, settings, url)

    assert needs_device(database, settings, batch_job(database, **fields), model) is needed


def test_a_model_that_does_not_exist_fails_a_batch_before_it_waits_for_a_device(
    database: Database, settings: WorkerSettings
) -> None:
    with pytest.raises(NotFound, match="nobody") as refused:
        needs_device(database, settings, batch_job(database), "nobody")

    assert refused.value.param == "input_file_id"


def test_a_batch_goes_through_the_relay_and_asks_for_a_device_once_that_has_ended(
    database: Database, settings: WorkerSettings
) -> None:
    body = {"model": "base", "messages": [{"role": "user", "content": "1+2="}]}
    lines = [{**REQUEST, "custom_id": str(number), "body": body} for number in range(3)]
    content = "".join(f"{json.dumps(line)}\n" for line in lines)
    Artifacts(settings.home).file("file-1").write_text(content)
    job = replace(batch_job(database), gpus=REMOTE_SLOT)
    folder = settings.home / "jobs" / job.id
    folder.mkdir(parents=True)

    def relayed(prompt: str, times: int) -> Reply:
        if times == 3:
            withdraw_endpoint(relay)
        return Reply("3", hold=times == 3)

    def attempt() -> BatchResult:
        BatchHandler(settings).work(database, Claim(job, ClaimStage.WORK, ("remote",)), folder)
        spec = BatchSpec.model_validate_json((folder / "spec.json").read_bytes())
        assert b"secret" not in (folder / "spec.json").read_bytes()
        context = ChildContext(folder, Reporter(folder), OperatorEnvironment(), None)
        return asyncio.run(send_batch(spec, context))

    with ChatServer(relayed) as server:
        relay = serving(database, settings, server.url.removesuffix("/v1"))
        with pytest.raises(JobFailed) as ended:
            attempt()
        assert ended.value.code == NEEDS_DEVICE
        assert server.authorizations == {"Bearer s"}
        assert len(list(read_records(folder / "output.jsonl", BatchOutput))) == 2
        with pytest.raises(JobFailed) as ended:
            attempt()
        assert ended.value.code == NEEDS_DEVICE
        assert server.asked.total() == 3
