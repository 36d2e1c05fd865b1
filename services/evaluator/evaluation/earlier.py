"""What an evaluation may reuse, according to the database."""

import re
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.errors import TemperError
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.rewards.openai_graders import (
    LabelModelGrader,
    MultiGrader,
    ScoreModelGrader,
)
from services.contracts.rewards.rewards import EvaluationGrader, PairwiseJudgeReward
from services.core.artifacts import Artifacts
from services.core.db.tables import JobRow
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.core.process.runtimes import RuntimeMissing, find_runtime
from services.evaluator.evaluation.checksums import FILE as CHECKSUMS
from services.evaluator.evaluation.identity import (
    ADAPTER,
    CODE,
    ENGINE,
    FILE,
    GRADING,
    STOP_TOKENS,
    WEIGHTS,
    code_version,
    request_parts,
)
from services.evaluator.evaluation.results import RESULTS
from services.evaluator.evaluation.reuse import (
    EarlierEvaluation,
    ReuseSpec,
    read_reuse,
    take_over,
    write_reuse,
)
from services.evaluator.models import RUNTIME
from services.jobs.job import Job
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import ResolvedModel, require_file, resolve_model
from services.rewards.families import families_of, may_regrade, package_of

SAME_FILE = 500
OTHER_FILES = 20
"""Earlier evaluations to compare with: of a file with the same content, else of any file."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_JUDGES = ScoreModelGrader | LabelModelGrader | PairwiseJudgeReward


def reuse_spec(
    session: Session,
    job: Job,
    request: CreateEvaluation,
    validation_dir: Path,
    settings: WorkerSettings,
) -> ReuseSpec:
    """The input of the validation child's comparison. Raises `InvalidRequest` if the file was
    deleted."""
    artifacts = Artifacts(settings.home)
    spec = ReuseSpec(
        job_dir=artifacts.job(job.id),
        validation_dir=validation_dir,
        checksums=settings.home / CHECKSUMS,
        parts=None,
    )
    content = _content(session, request)
    model = _model(session, request, settings)
    refusal = model if isinstance(model, str) else _refusal(request, model, settings)
    if refusal is not None or isinstance(model, str):
        return spec.model_copy(update={"refusal": refusal})
    folders = {WEIGHTS: model.weights.path, ADAPTER: model.adapter}
    repository = f"hub:{model.weights.hub_id}@{model.weights.revision}"
    parts: dict[str, JsonValue] = {
        **request_parts(request),
        FILE: content,
        WEIGHTS: repository if model.weights.hub_id else None,
        ADAPTER: None,
        STOP_TOKENS: list(model.stop_token_ids),
        CODE: code_version(),
        ENGINE: _version(settings, RUNTIME),
        GRADING: _graded_by(request, settings),
    }
    return spec.model_copy(
        update={
            "parts": parts,
            "folders": {name: folder for name, folder in folders.items() if folder is not None},
            "refusal": "a fresh run was asked for" if request.fresh else None,
            "earlier": list(_earlier(session, job.id, content, artifacts)),
        }
    )


def reuse_newest(
    session: Session,
    job: Job,
    request: CreateEvaluation,
    job_dir: Path,
    settings: WorkerSettings,
) -> None:
    """Copy the rows of an equal evaluation that succeeded while this one waited."""
    reuse = read_reuse(job_dir)
    if reuse is None or reuse.parts is None or request.fresh or (job_dir / RESULTS).exists():
        return
    content, artifacts = str(reuse.parts[FILE]), Artifacts(settings.home)
    found = take_over(reuse, list(_earlier(session, job.id, content, artifacts)), job_dir)
    if found.cached_from is not None:
        write_reuse(job_dir, found)
        Reporter(job_dir).message(f"The answers and grades of {found.cached_from} are reused")


def _model(
    session: Session, request: CreateEvaluation, settings: WorkerSettings
) -> ResolvedModel | str:
    """The model, or why its answers cannot be reused."""
    if not isinstance(request.model, str):
        return "a remote model may change behind its URL"
    try:
        return resolve_model(
            session,
            request.model,
            settings.models_folder,
            Artifacts(settings.home),
            settings.trusted_models,
        )
    except TemperError as error:
        return error.message  # it may be there when the job runs


def _refusal(
    request: CreateEvaluation, model: ResolvedModel, settings: WorkerSettings
) -> str | None:
    """Why the answers of this evaluation are never reused."""
    if model.weights.hub_id and not _COMMIT.fullmatch(model.weights.revision or ""):
        return "the hub's revision may move; register the model with a commit to change that"
    if request.tools:
        return "its tools may give other replies"
    samplings = [each.sampling for each in _asked(request)]
    if any(each.temperature > 0 and each.seed is None for each in samplings):
        return "without sampling.seed answers differ from run to run"
    return _regrading(request, settings)


def _regrading(request: CreateEvaluation, settings: WorkerSettings) -> str | None:
    """Why equal answers may be graded otherwise than before."""
    if any(each.judge or _asks_a_judge(each.grader) for each in _asked(request)):
        return "its judge may change behind its URL"
    environment = OperatorEnvironment.of(settings)
    reasons = (may_regrade(grader, "grader", environment) for grader in _graders(request))
    return next((reason for reason in reasons if reason is not None), None)


def _asked(request: CreateEvaluation) -> Collection[CreateEvaluation]:
    return request.by_benchmark().values()


def _graders(request: CreateEvaluation) -> list[EvaluationGrader]:
    return [each.grader for each in _asked(request)]


def _content(session: Session, request: CreateEvaluation) -> str:
    """The checksum of the file, or one of those of several."""
    references = request.file_references.items()
    found = [require_file(session, file, place).sha256 for place, file in references]
    return found[0] if len(found) == 1 else sha256("\n".join(found).encode()).hexdigest()


def _asks_a_judge(grader: EvaluationGrader) -> bool:
    parts = grader.by_variable.values() if isinstance(grader, MultiGrader) else (grader,)
    return any(isinstance(part, _JUDGES) for part in parts)


def _graded_by(request: CreateEvaluation, settings: WorkerSettings) -> JsonValue:
    """The versions of what grades beside our code: runtimes, and packages of extensions."""
    runtimes = {
        f"{family.runtime} {_version(settings, family.runtime)}"
        for family, _ in families_of(_graders(request), "grader")
        if family.runtime is not None
    }
    packages = {found for found in map(package_of, _graders(request)) if found is not None}
    return [*sorted(runtimes), *sorted(packages)] or None


def _version(settings: WorkerSettings, runtime: str) -> str | None:
    try:
        return find_runtime(settings.runtimes_folder, runtime).version
    except RuntimeMissing:
        return None


def _earlier(
    session: Session, job_id: str, content: str, artifacts: Artifacts
) -> Iterator[EarlierEvaluation]:
    finished = (
        select(JobRow.id, JobRow.result)
        .where(
            JobRow.kind == JobKind.EVALUATION.value,
            JobRow.status == JobStatus.SUCCEEDED.value,
            JobRow.id != job_id,
        )
        .order_by(JobRow.seq.desc())
    )
    same = JobRow.result[("reuse", "parts", FILE)].as_string() == content
    rows = session.execute(finished.where(same).limit(SAME_FILE)).all()
    rows = rows or session.execute(finished.limit(OTHER_FILES)).all()
    for found, result in rows:
        reuse: dict[str, Any] = (result or {}).get("reuse") or {}
        if reuse.get("parts") is not None:
            outcomes = (result.get("benchmarks") or {"": result["metrics"]}).values()
            yield EarlierEvaluation(
                id=found,
                folder=artifacts.job(found),
                parts=reuse["parts"],
                rows=sum(each["samples"] for each in outcomes),
                errors=sum(each["errors"] + each.get("left_out", 0) for each in outcomes),
                cached_from=reuse.get("cached_from"),
            )
