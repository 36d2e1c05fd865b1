"""Comparisons of evaluations, computed from their result rows."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from services.api.evaluations.results import read_results
from services.contracts.comparisons import (
    ComparedValue,
    CompareEvaluations,
    EvaluationComparison,
    PairedComparison,
)
from services.contracts.errors import Conflict, InvalidRequest
from services.contracts.evaluations import CreateEvaluation, SampleResult
from services.contracts.jobs import JobKind, JobStatus
from services.core.artifacts import Artifacts
from services.core.jobs.store import get_job
from services.metrics.paired import compare, holm

LISTED = 1_000
"""Items listed as gained or lost, each."""


def check_comparable(session: Session, baseline: str, candidates: list[str]) -> None:
    """Raise unless all are succeeded evaluations of one file with one grader."""
    if len({baseline, *candidates}) <= len(candidates):
        raise InvalidRequest("every evaluation can be named once", param="candidates")
    requests = [_request(session, each) for each in (baseline, *candidates)]
    first = requests[0]
    for name, request in zip(candidates, requests[1:], strict=True):
        if request.file != first.file:
            raise InvalidRequest(
                f"{name} evaluates {request.file}, {baseline} {first.file}: "
                "only evaluations of the same file have the same items",
                param="candidates",
            )
        graded_by = (request.grader, request.passing_score)
        if graded_by != (first.grader, first.passing_score):
            raise InvalidRequest(
                f"{name} and {baseline} have different graders or pass thresholds",
                param="candidates",
            )


def _request(session: Session, evaluation: str) -> CreateEvaluation:
    job = get_job(session, evaluation, JobKind.EVALUATION)
    if job.status is not JobStatus.SUCCEEDED:
        raise Conflict(f"{evaluation} is {job.status.value}; only succeeded ones can be compared")
    return CreateEvaluation.model_validate(job.request)


def compare_evaluations(
    artifacts: Artifacts, baseline: str, body: CompareEvaluations
) -> EvaluationComparison:
    """Test every candidate against the baseline; see `check_comparable`."""
    before = _Items.read(artifacts.job(baseline), body.value)
    found = [
        _compare(before, _Items.read(artifacts.job(each), body.value), each)
        for each in body.candidates
    ]
    adjusted = holm([each.p_value for each in found])
    return EvaluationComparison(
        baseline=baseline,
        value=body.value,
        comparisons=[
            each.model_copy(update={"p_adjusted": p})
            for each, p in zip(found, adjusted, strict=True)
        ],
    )


@dataclass(frozen=True)
class _Items:
    """The value of each item that has one, by its row; several samples of an item are averaged."""

    values: Mapping[int, float]
    seen: frozenset[int]
    errors: int

    @classmethod
    def read(cls, job_dir: Path, value: ComparedValue) -> "_Items":
        samples: dict[int, list[float]] = defaultdict(list)
        seen: set[int] = set()
        ungraded: set[int] = set()
        for row in read_results(job_dir):
            seen.add(row.index)
            if row.correct is None:
                ungraded.add(row.index)
            found = _value(row, value)
            if found is not None:
                samples[row.index].append(found)
        means = {index: sum(each) / len(each) for index, each in samples.items()}
        return cls(means, frozenset(seen), len(ungraded))


def _value(row: SampleResult, value: ComparedValue) -> float | None:
    if value == "correct":
        return float(row.correct is True)
    if row.correct is None:
        return None
    return float(row.correct) if row.score is None else row.score


def _compare(before: _Items, after: _Items, candidate: str) -> PairedComparison:
    shared = sorted(before.values.keys() & after.values.keys())
    if not shared:
        raise InvalidRequest(f"{candidate} and the baseline share no item", param="candidates")
    pairs = [(before.values[index], after.values[index]) for index in shared]
    gained = [index for index, (old, new) in zip(shared, pairs, strict=True) if new > old]
    lost = [index for index, (old, new) in zip(shared, pairs, strict=True) if new < old]
    result = compare([old for old, _ in pairs], [new for _, new in pairs])
    return PairedComparison(
        candidate=candidate,
        items=len(shared),
        left_out=len(before.seen | after.seen) - len(shared),
        baseline_errors=before.errors,
        candidate_errors=after.errors,
        p_adjusted=result.p_value,
        gained=len(gained),
        lost=len(lost),
        gained_items=gained[:LISTED],
        lost_items=lost[:LISTED],
        **asdict(result),
    )
