"""An evaluation of several benchmarks, from its request to its view."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.api.evaluations.service import evaluation_view
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.jobs import JobKind
from services.core.db.engine import Database
from services.core.db.tables import FileRow
from services.core.process.runtimes import RuntimeMissing
from services.evaluator.evaluation.handler import EvaluationHandler
from services.evaluator.evaluation.spec import EvaluationFilesSpec, EvaluationSpec
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job
from services.jobs.worker.settings import WorkerSettings
from services.metrics.main_metric import main_metric
from tests.support.evaluation.evaluation_view import metrics_of
from tests.support.extension import write_wheel
from tests.support.runtime.stand_in import add_runtime

REQUEST: dict[str, Any] = {
    "model": {"base_url": "http://127.0.0.1:9/v1", "model": "m"},
    "system_prompt": "Think.",
    "sampling": {"temperature": 0.5},
    "benchmarks": [
        {"benchmark": "gsm8k", "file": "file-1", "split": "final", "system_prompt": "Add."},
        {"name": "own", "file": "file-2", "samples_per_item": 4, "sampling": {"max_tokens": 9}},
    ],
}


@pytest.fixture
def settings(tmp_path: Path, database: Database) -> WorkerSettings:
    with database.write() as session:
        for name in ("file-1", "file-2"):
            session.add(
                FileRow(
                    **{"id": name, "filename": f"{name}.jsonl", "purpose": "evals", "bytes": 1},
                    **{"sha256": "0" * 64, "created_at": time.time()},
                )
            )
    return WorkerSettings(home=tmp_path, runtimes=tmp_path / "runtimes")


def job_of(database: Database, request: dict[str, Any]) -> Job:
    body = CreateEvaluation.model_validate(request)
    with database.write() as session:
        return create_job(session, NewJob.of(JobKind.EVALUATION, body, None))


def test_every_benchmark_has_a_file_to_validate(
    tmp_path: Path, database: Database, settings: WorkerSettings
) -> None:
    job = job_of(database, REQUEST)
    EvaluationHandler(settings).validation(database, job, tmp_path)

    spec = EvaluationFilesSpec.model_validate_json((tmp_path / "validation.json").read_bytes())
    files = {place: file.filename for place, file in spec.files().items()}
    assert files == {
        "benchmarks.0.file": "file-1.jsonl",
        "benchmarks.1.file": "file-2.jsonl",
    }
    first, second = spec.checked.values()
    assert (first.name, first.grader.type, first.split) == ("gsm8k", "numeric", "final")
    assert (second.name, second.grader.type, second.split) == ("own", "exact", None)


def test_a_grader_of_any_benchmark_needs_its_runtime(
    tmp_path: Path, database: Database, settings: WorkerSettings
) -> None:
    chemistry = {"benchmark": "chemcotbench", "file": "file-2"}
    job = job_of(database, {**REQUEST, "benchmarks": [REQUEST["benchmarks"][0], chemistry]})
    with pytest.raises(RuntimeMissing):
        EvaluationHandler(settings).validation(database, job, tmp_path)


def test_a_grader_of_a_package_needs_the_runtime_that_it_names(
    tmp_path: Path,
    database: Database,
    settings: WorkerSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(write_wheel(tmp_path)))
    grader = {"type": "extension", "name": "brevity", "settings": {"most": 9}}
    own = {"name": "own", "file": "file-2", "grader": grader}
    job = job_of(database, {**REQUEST, "benchmarks": [REQUEST["benchmarks"][0], own]})
    EvaluationHandler(settings).validation(database, job, tmp_path)

    monkeypatch.setattr("extension_example.BrevityFamily.runtime", "molecules")
    with pytest.raises(RuntimeMissing, match="molecules"):
        EvaluationHandler(settings).validation(database, job, tmp_path)
    add_runtime(settings.runtimes_folder, "molecules")
    EvaluationHandler(settings).validation(database, job, tmp_path)


def test_one_engine_asks_every_benchmark_with_its_own_settings(
    tmp_path: Path, database: Database, settings: WorkerSettings
) -> None:
    claim = Claim(job_of(database, REQUEST), ClaimStage.WORK, ("cpu-host-0",))
    EvaluationHandler(settings).work(database, claim, tmp_path)

    spec = EvaluationSpec.model_validate_json((tmp_path / "spec.json").read_bytes())
    assert spec.model.type == "remote"
    first, second = spec.benchmarks
    assert (first.name, first.samples_per_item, first.split) == ("gsm8k", 1, "final")
    assert (second.name, second.samples_per_item, second.split) == ("own", 4, None)
    assert (first.system_prompt, second.system_prompt) == ("Add.", "Think.")
    sampled = [(each.sampling.temperature, each.sampling.max_tokens) for each in spec.benchmarks]
    assert sampled == [(0.5, 512), (0.5, 9)]


def test_metrics_are_shown_by_benchmark(database: Database, settings: WorkerSettings) -> None:
    job = job_of(database, REQUEST)
    metrics = {
        name: EvaluationMetrics(
            **{"samples": 4, "correct": correct, "errors": 0, "accuracy": correct / 4},
            **{"stderr": 0.1, "ci95": (0.0, 1.0), "prompt_tokens": 1, "completion_tokens": 1},
            **{"generation_seconds": 1.0, "tokens_per_second": 1.0},
        ).model_dump(mode="json")
        for name, correct in (("gsm8k", 1), ("own", 3))
    }
    assert [each.metrics for each in evaluation_view(job).outcomes()] == [None, None]
    with database.write() as session:
        kept = EvaluationHandler(settings).complete(session, job, {"benchmarks": metrics})

    shown = evaluation_view(replace(job, result=json.loads(json.dumps(kept))))

    assert shown.metrics is None
    found = {
        each.name: each.metrics.accuracy for each in shown.outcomes() if each.metrics is not None
    }
    assert found == {"gsm8k": 0.25, "own": 0.75}


def test_what_ended_under_an_earlier_version_keeps_its_main_metric(database: Database) -> None:
    grader = {"type": "panorama", "task": "noc4pc"}
    request = {"model": "base", "file": "file-rows", "grader": grader}
    score = {"mean": 0.3, "stderr": 0.05, "ci95": [0.2, 0.4], "samples": 10, "items": 10}
    metrics = {**metrics_of(0.7), "measures": {"noc4pc": {"macro_f1": score}}}

    shown = evaluation_view(replace(job_of(database, request), result={"metrics": metrics}))

    assert shown.main_metric is not None
    assert (shown.main_metric.name, shown.main_metric.mean) == ("macro_f1", 0.3)
    assert main_metric(shown.outcomes()[0]) == shown.main_metric
