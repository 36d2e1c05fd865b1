"""When the answers of an earlier evaluation are reused, and what is said when they are not."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from services.api.evaluations.service import evaluation_view
from services.contracts.evaluation.evaluations import CreateEvaluation, Evaluation
from services.contracts.jobs import JobKind, JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.core.process.reporter import METRICS, NEEDS_DEVICE, Reporter
from services.datasets.validate import SPEC
from services.evaluator.evaluation import reuse as reuse_module
from services.evaluator.evaluation.handler import EvaluationHandler
from services.evaluator.evaluation.identity import differences, request_parts
from services.evaluator.evaluation.results import RESULTS, ResultRow
from services.evaluator.evaluation.spec import EvaluationFilesSpec
from services.evaluator.evaluation.totals import RunningTotals
from services.evaluator.evaluation.validation import reuse_equal
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job, get_job, move_job
from services.jobs.worker.settings import WorkerSettings
from tests.support.extension import write_wheel
from tests.support.runtime.stand_in import add_runtime

REMOTE = {"base_url": "http://127.0.0.1:9/v1", "model": "adder"}
JUDGE = {
    "type": "label_model",
    "name": "judge",
    "model": REMOTE,
    "input": [{"role": "user", "content": "{{ sample.output_text }}"}],
    "labels": ["good", "bad"],
    "passing_labels": ["good"],
}
EXTENSION = {"type": "extension", "name": "brevity", "settings": {"most": 10}}
ANY_JUDGE = {"type": "multi", "name": "all", "graders": {"a": JUDGE}, "calculate_output": "a"}


class Evaluations:
    """Evaluations that are validated as a worker's child does, and finish with given rows."""

    def __init__(self, database: Database, home: Path) -> None:
        self.settings = WorkerSettings(home=home, runtimes=home / "runtimes")
        self.home = home
        self._database = database
        self._handler = EvaluationHandler(self.settings)
        self.folder(home / "models" / "base", weights=b"some weights")
        self.install("1")
        Artifacts(home).file("file").parent.mkdir()
        self._add(ModelRow(id="base", kind="full", folder="base", created_at=time.time()))
        self.add_file("file-1", "0" * 64)

    def folder(self, folder: Path, weights: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text('{"model_type": "stub"}')
        (folder / "model.safetensors").write_bytes(weights)

    def install(self, version: str) -> None:
        add_runtime(self.settings.runtimes_folder, "vllm", version=version)

    def add_file(self, name: str, sha256: str) -> None:
        row = FileRow(id=name, filename="rows.jsonl", purpose="evals", bytes=1, sha256=sha256)
        row.created_at = time.time()
        self._add(row)

    def add_model(self, name: str, **fields: Any) -> None:
        self._add(ModelRow(id=name, created_at=time.time(), **{"kind": "full", **fields}))

    def _add(self, row: FileRow | ModelRow) -> None:
        with self._database.write() as session:
            session.add(row)

    def validated(self, **fields: Any) -> tuple[Job, bool]:
        """A created and validated evaluation, and whether it needs a device."""
        body = CreateEvaluation.model_validate({"model": "base", "file": "file-1", **fields})
        new = NewJob.of(JobKind.EVALUATION, body, body.gpus)
        with self._database.write() as session:
            job = create_job(session, new)
        folder = self.job_dir(job.id) / "validation"
        folder.mkdir(parents=True)
        self._handler.validation(self._database, job, folder)
        spec = EvaluationFilesSpec.model_validate_json((folder / SPEC).read_bytes())
        return job, reuse_equal(spec, {}).get(NEEDS_DEVICE, True)

    def start(self, job: Job) -> None:
        """Prepare the work of a claimed job."""
        claim = Claim(job, ClaimStage.WORK, ("cpu-host-0",))
        self._handler.work(self._database, claim, self.job_dir(job.id))

    def job_dir(self, job_id: str) -> Path:
        return Artifacts(self.home).job(job_id)

    def finished(self, job: Job, answers: str = "1101") -> Evaluation:
        """Let a job end with rows, its own if it has any; a hyphen has no answer."""
        path, totals = self.job_dir(job.id) / RESULTS, RunningTotals(seconds=5.0)
        if not path.exists():
            rows = [
                ResultRow(
                    index=index,
                    gold=["1"],
                    answer=None if mark == "-" else mark,
                    correct=None if mark == "-" else mark == "1",
                )
                for index, mark in enumerate(answers)
            ]
            path.write_text("".join(row.model_dump_json() + "\n" for row in rows))
            Reporter(path.parent).metrics(len(rows), generation_seconds=5.0)
        for line in path.read_text().splitlines():
            totals.add(ResultRow.model_validate_json(line))
        result = {"metrics": totals.metrics().model_dump(mode="json")}
        with self._database.write() as session:
            for status in (JobStatus.QUEUED, JobStatus.RUNNING):
                job = move_job(session, job, status, "moved")
            kept = self._handler.complete(session, job, result)
            move_job(session, job, JobStatus.SUCCEEDED, "done", result=kept)
            return evaluation_view(get_job(session, job.id))

    def run(self, answers: str = "1101", **fields: Any) -> Evaluation:
        """An evaluation from its creation to its end."""
        return self.finished(self.validated(**fields)[0], answers)

    def why(self, **fields: Any) -> str:
        """Why an evaluation asks its model."""
        job, needs_device = self.validated(**fields)
        assert needs_device
        reason = self.finished(job, "1").not_cached
        assert reason is not None
        return reason


@pytest.fixture
def evaluations(database: Database, tmp_path: Path) -> Evaluations:
    return Evaluations(database, tmp_path)


def test_an_equal_evaluation_has_the_rows_of_the_first_also_when_that_is_gone(
    evaluations: Evaluations,
) -> None:
    evaluations.add_file("file-2", "0" * 64)
    first = evaluations.run("1101")
    assert first.not_cached == "no evaluation that can be reused has succeeded before"

    fields = {"file": "file-2", "max_concurrency": 3, "metadata": {"a": "b"}, "priority": 5}
    job, needs_device = evaluations.validated(**fields)
    rows = (evaluations.job_dir(first.id) / RESULTS).read_bytes()
    shutil.rmtree(evaluations.job_dir(first.id))
    again = evaluations.finished(job)

    assert not needs_device
    assert (evaluations.job_dir(again.id) / RESULTS).read_bytes() == rows
    assert (evaluations.job_dir(again.id) / METRICS).exists()
    assert again.metrics == first.metrics
    assert (again.cached_from, again.not_cached) == (first.id, None)


def test_the_evaluation_that_asked_the_model_is_named_while_it_has_its_rows(
    evaluations: Evaluations,
) -> None:
    first = evaluations.run()
    evaluations.run()
    third = evaluations.run()

    assert third.cached_from == first.id
    (evaluations.job_dir(first.id) / RESULTS).unlink()
    assert evaluations.run().cached_from == third.id


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"sampling": {"temperature": 0.5}}, "sampling.temperature differs"),
        (
            {"sampling": {"max_tokens": 9}, "system_prompt": "Be brief."},
            "sampling.max_tokens differs, system_prompt differs",
        ),
        ({"grader": {"type": "exact", "ignore_case": True}}, "grader.ignore_case differs"),
        ({"engine": {"max_model_len": 99}}, "engine.max_model_len differs"),
        ({"chat_template_kwargs": {"a": 1}}, "chat_template_kwargs.a differs"),
        ({"prediction": {"path": ""}}, "prediction.path differs"),
        ({"max_samples": 3}, "max_samples differs"),
    ],
)
def test_what_differs_is_named(
    evaluations: Evaluations, fields: dict[str, Any], reason: str
) -> None:
    first = evaluations.run()

    assert evaluations.why(**fields) == f"compared with {first.id}: {reason}"


def test_what_changed_behind_equal_names_is_named(
    evaluations: Evaluations, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluations.run()
    evaluations.add_file("file-2", "1" * 64)
    compared = f"compared with {first.id}: "

    assert evaluations.why(file="file-2") == f"{compared}the file's content differs"
    evaluations.install("2")
    assert evaluations.why() == f"{compared}another version of the engine"
    evaluations.install("1")
    with monkeypatch.context() as patch:
        patch.setattr("services.evaluator.evaluation.earlier.code_version", lambda: "newer")
        patch.setattr(reuse_module, "code_version", lambda: "newer")
        assert evaluations.why() == f"{compared}another version of Temper"
    weights = evaluations.home / "models" / "base" / "model.safetensors"
    weights.write_bytes(b"more weights")
    assert evaluations.why() == f"{compared}the model's weights differ"


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        *(("tokenizer.json", True), ("chat_template.jinja", True), ("pytorch_model.bin", True)),
        *(("README.md", False), ("optimizer.pt", False), ("trainer_state.json", False)),
    ],
)
def test_every_file_that_a_model_is_loaded_from_counts(
    evaluations: Evaluations, file: str, counts: bool
) -> None:
    evaluations.run()
    (evaluations.home / "models" / "base" / file).write_text("{}")

    assert (evaluations.run().cached_from is None) == counts


def test_differences_of_one_of_several_benchmarks_are_named_with_it() -> None:
    sums: dict[str, Any] = {"name": "sums", "file": "file-1"}
    request = CreateEvaluation.model_validate(
        {"model": "base", "benchmarks": [sums, {"name": "cities", "file": "file-2"}]}
    )
    sums["sampling"] = {"max_tokens": 5}
    other = CreateEvaluation.model_validate(
        {"model": "base", "benchmarks": [sums, {"name": "cities", "file": "file-2"}]}
    )

    different = differences(request_parts(request), request_parts(other))

    assert different == ["sums.sampling.max_tokens"]


def test_the_nearest_of_several_is_compared_with(evaluations: Evaluations) -> None:
    near = evaluations.run(sampling={"max_tokens": 5})
    evaluations.run(sampling={"max_tokens": 7, "top_p": 0.5}, system_prompt="Be brief.")

    assert evaluations.why() == f"compared with {near.id}: sampling.max_tokens differs"


def test_a_copy_of_the_weights_is_the_same_model_and_an_adapter_is_another(
    evaluations: Evaluations,
) -> None:
    first = evaluations.run()
    for name in ("copy", "adapter"):
        evaluations.folder(evaluations.home / "models" / name, weights=b"some weights")
    evaluations.add_model("copy", folder="copy")
    evaluations.add_model("adapter", folder="adapter", kind="adapter", base="base")

    copy = evaluations.run(model="copy")

    assert copy.cached_from == first.id
    assert evaluations.why(model="adapter") == (
        f"compared with {copy.id}: the model's adapter differs"
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": REMOTE}, "a remote model may change behind its URL"),
        ({"grader": JUDGE}, "its judge may change behind its URL"),
        ({"grader": ANY_JUDGE}, "its judge may change behind its URL"),
        (
            {"sampling": {"temperature": 0.5, "seed": None}},
            "without sampling.seed answers differ from run to run",
        ),
        ({"tools": [{"class_name": "sandbox"}]}, "its tools may give other replies"),
        ({"model": "moving"}, "the hub's revision may move; register the model with a commit"),
    ],
)
def test_what_may_be_answered_otherwise_is_always_asked(
    evaluations: Evaluations, fields: dict[str, Any], reason: str
) -> None:
    evaluations.add_model("moving", hub_id="owner/model", revision="main")

    assert evaluations.why(**fields).startswith(reason)
    assert evaluations.why(**fields).startswith(reason)


def test_an_extension_is_asked_again_where_it_or_its_package_may_grade_otherwise(
    evaluations: Evaluations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write_wheel(tmp_path)))
    first = evaluations.run(grader=EXTENSION)
    assert evaluations.run(grader=EXTENSION).cached_from == first.id

    monkeypatch.syspath_prepend(str(write_wheel(tmp_path, version="2.0")))
    assert "the package of an extension" in evaluations.why(grader=EXTENSION)
    monkeypatch.delattr("extension_example.BrevityFamily.may_regrade")
    assert evaluations.why(grader=EXTENSION) == "its extension may grade otherwise"


def test_a_greedy_evaluation_needs_no_seed_and_a_hub_model_its_commit(
    evaluations: Evaluations,
) -> None:
    evaluations.add_model("pinned", hub_id="owner/model", revision="a" * 40)
    fields: dict[str, Any] = {"model": "pinned", "sampling": {"seed": None}}

    first = evaluations.run(**fields)

    assert evaluations.run(**fields).cached_from == first.id


def test_a_fresh_run_asks_the_model_and_can_be_reused(evaluations: Evaluations) -> None:
    evaluations.run(sampling={"max_tokens": 5})
    assert evaluations.why(fresh=True) == "a fresh run was asked for"

    assert evaluations.run().cached_from is not None


def test_failed_rows_and_missing_rows_are_not_reused(evaluations: Evaluations) -> None:
    failed = evaluations.run("1-0-")
    assert evaluations.why() == (
        f"{failed.id} is equal, but 2 of its rows had no answer or no grade"
    )
    whole = evaluations.run(sampling={"max_tokens": 5})
    path = evaluations.job_dir(whole.id) / RESULTS
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])

    job, needs_device = evaluations.validated(sampling={"max_tokens": 5})

    assert needs_device
    assert not (evaluations.job_dir(job.id) / RESULTS).exists()
    assert evaluations.finished(job, "1").not_cached == (
        f"{whole.id} is equal, but its rows are gone"
    )


def test_an_evaluation_that_waited_reuses_what_succeeded_meanwhile(
    evaluations: Evaluations,
) -> None:
    first, _ = evaluations.validated()
    waiting, needs_device = evaluations.validated()
    fresh, _ = evaluations.validated(fresh=True)
    assert needs_device
    evaluations.finished(first)

    evaluations.start(waiting)
    evaluations.start(fresh)

    done = evaluations.finished(waiting)
    assert (done.cached_from, done.not_cached) == (first.id, None)
    assert not (evaluations.job_dir(fresh.id) / RESULTS).exists()


def test_an_evaluation_whose_model_changed_while_it_ran_is_not_reused(
    evaluations: Evaluations,
) -> None:
    job, _ = evaluations.validated()
    (evaluations.home / "models" / "base" / "model.safetensors").write_bytes(b"more weights")
    evaluations.finished(job)

    assert evaluations.why() == "no evaluation that can be reused has succeeded before"
