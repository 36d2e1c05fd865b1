"""A worker whose trainings and evaluations are stand-ins, for tests of campaigns.

A training's quality is the share of its rows with the right sum; its model then answers that
share of any benchmark rightly, the base model a tenth.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.models.registered import Lineage, ModelKind
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.queues import EVALUATION, TRAINING
from services.jobs.worker.handler import Launch, ServedKind
from services.jobs.worker.main import serve_kinds
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import (
    TrainedModel,
    get_model_row,
    register_trained,
    trained_model_name,
)

BASE_QUALITY = 0.1
_SUM = re.compile(r"What is (\d+) (?:plus|\+) (\d+)\?")


def _stub(job_dir: Path) -> Launch:
    return Launch([sys.executable, "-m", "tests.support.jobs.stub_child", str(job_dir), "succeed"])


class StandInTraining:
    """Measures the rows instead of training on them."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        return None

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        text = self._artifacts.file(claim.job.request["training_file"]).read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        quality = sum(_is_right(row) for row in rows) / len(rows)
        (job_dir / "quality").write_text(str(quality))
        return _stub(job_dir)

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        name = trained_model_name(job.request["model"], None, job.id)
        lineage = Lineage(job_id=job.id, parent=job.request["model"], library_versions={})
        model = TrainedModel(name, ModelKind.FULL, job.request["model"], "output", lineage)
        register_trained(session, model)
        return {"fine_tuned_model": name}


def _is_right(row: dict[str, str]) -> bool:
    numbers = _SUM.search(row["instruction"])
    given = row["output"].split()[-1]
    return numbers is not None and given == str(int(numbers[1]) + int(numbers[2]))


class StandInEvaluation:
    """Answers as rightly as the model's training data were."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        return None

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        request = claim.job.request
        with database.read() as session:
            trained_by = get_model_row(session, request["model"]).job_id
        quality = BASE_QUALITY
        if trained_by is not None:
            quality = float((self._artifacts.job(trained_by) / "quality").read_text())
        items = self._artifacts.file(request["file"]).read_text().splitlines()
        lines = [
            json.dumps(_result(index, index < quality * len(items))) for index in range(len(items))
        ]
        (job_dir / "results.jsonl").write_text("\n".join(lines) + "\n")
        return _stub(job_dir)

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        counts = {"samples": 1, "correct": 1, "errors": 0, "accuracy": 1.0, "stderr": 0.0}
        speed = {"prompt_tokens": 1, "completion_tokens": 1, "generation_seconds": 1.0}
        metrics = EvaluationMetrics.model_validate(
            {**counts, **speed, "ci95": (0.0, 1.0), "tokens_per_second": 1.0}
        )
        return {"metrics": metrics.model_dump(mode="json")}


def _result(index: int, correct: bool) -> dict[str, Any]:
    answer = "right" if correct else "wrong"
    return {
        "index": index,
        "gold": ["right"],
        "answer": answer,
        "score": float(correct),
        "correct": correct,
    }


if __name__ == "__main__":
    settings = WorkerSettings()
    serve_kinds(
        [
            ServedKind(StandInTraining(settings), TRAINING),
            ServedKind(StandInEvaluation(settings), EVALUATION),
        ],
        settings,
    )
