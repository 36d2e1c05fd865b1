"""Comparisons of evaluations, computed from their result rows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

from sqlalchemy.orm import Session

from services.api.evaluations.results import read_results
from services.api.evaluations.service import evaluation_view
from services.contracts.base import JsonObject
from services.contracts.errors import Conflict, InvalidRequest
from services.contracts.evaluation.benchmarks import benchmark_of
from services.contracts.evaluation.comparisons import (
    ComparedValue,
    CompareEvaluations,
    EvaluationComparison,
    PairedComparison,
    ToolCallComparison,
)
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.evaluation.metrics import Direction, ToolCallScores
from services.contracts.evaluation.results import EvaluationMetrics, SampleResult
from services.contracts.jobs import JobKind, JobStatus
from services.core.artifacts import Artifacts
from services.jobs.job import Job
from services.jobs.store import get_job
from services.metrics.missing_scores import worst_score

SIGNIFICANCE = 0.05
"""Family-wise error rate of all tests."""
MAX_LISTED = 1_000
"""Maximum items listed as gained, and as lost."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A benchmark of the baseline (``ours``) and one of a candidate (``theirs``) to compare.

    None is the only benchmark of an evaluation. ``tool_calls`` are the scores of graded calls.
    """

    candidate: str
    ours: str | None
    theirs: str | None
    value: ComparedValue
    direction: Direction
    tool_calls: ToolCallComparison | None


def pair_benchmarks(session: Session, baseline: str, body: CompareEvaluations) -> list[Pair]:
    """The benchmarks that the baseline and each candidate share.

    Raises unless all are succeeded evaluations, whose shared benchmarks take the same answers to
    the same rows for correct.
    """
    candidates = body.candidates
    if len({baseline, *candidates}) <= len(candidates):
        raise InvalidRequest("every evaluation can be named only once", param="candidates")
    jobs = {each: _succeeded(session, each) for each in (baseline, *candidates)}
    requests = {name: _request(job).by_benchmark() for name, job in jobs.items()}
    calls = {name: _tool_calls(job) for name, job in jobs.items()}
    pairs = []
    for candidate in candidates:
        shared = _shared(requests[baseline], requests[candidate])
        if not shared:
            raise InvalidRequest(
                f"{candidate} and {baseline} share no benchmark", param="candidates"
            )
        for ours, theirs in shared:
            names = (_named(candidate, theirs), _named(baseline, ours))
            _check_same(names, requests[candidate][theirs], requests[baseline][ours])
            compared = _compared(requests[baseline][ours], body)
            scores = _tool_call_comparison(calls[baseline].get(ours), calls[candidate].get(theirs))
            pairs.append(Pair(candidate, ours, theirs, *compared, scores))
    return pairs


def _compared(
    request: CreateEvaluation, body: CompareEvaluations
) -> tuple[ComparedValue, Direction]:
    """The compared value and its direction; more correct answers are always better."""
    metric, direction = request.main_metric
    value = body.value or ("score" if metric == "mean_score" else "correct")
    return value, direction if value == "score" else "maximize"


_ByBenchmark = Mapping[str | None, CreateEvaluation]


def _shared(ours: _ByBenchmark, theirs: _ByBenchmark) -> list[tuple[str | None, str | None]]:
    """Pairs of benchmarks with the same name; an evaluation of a single file is paired with a
    benchmark that grades its rows alike."""
    if (None in ours) == (None in theirs):
        return [(name, name) for name in ours if name in theirs]
    single, several = (ours[None], theirs) if None in ours else (theirs[None], ours)
    alike = [name for name, each in several.items() if _same(each, single)]
    alike.sort(key=lambda name: name != single.benchmark)
    return [(None, name) if None in ours else (name, None) for name in alike[:1]]


def _same(one: CreateEvaluation, other: CreateEvaluation) -> bool:
    return one.file == other.file and not _differing(one, other)


def _differing(one: CreateEvaluation, other: CreateEvaluation) -> list[str]:
    """What makes correct answers to the same rows of the two something else, by its fields."""
    ours, theirs = _graded(one), _graded(other)
    return [name for name in ours | theirs if ours.get(name) != theirs.get(name)]


def _graded(request: CreateEvaluation) -> JsonObject:
    task = {} if request.benchmark is None else benchmark_of(request.benchmark).task
    return {
        "grader": request.grader,
        "pass_threshold": request.passing_score,
        "direction": request.main_metric[1],
        "prediction": request.prediction,
        "keep_reasoning": request.keep_reasoning,
        **{f"benchmark.{name}": value for name, value in task.items() if value},
    }


def _named(evaluation: str, benchmark: str | None) -> str:
    return evaluation if benchmark is None else f"{benchmark} of {evaluation}"


def _check_same(names: tuple[str, str], one: CreateEvaluation, first: CreateEvaluation) -> None:
    name, baseline = names
    if one.file != first.file:
        raise InvalidRequest(
            f"{name} evaluates {one.file}, {baseline} {first.file}: "
            "only evaluations of the same file have the same items",
            param="candidates",
        )
    if differing := _differing(one, first):
        raise InvalidRequest(
            f"{name} and {baseline} grade different things: they differ in {', '.join(differing)}",
            param="candidates",
        )


def _succeeded(session: Session, evaluation: str) -> Job:
    job = get_job(session, evaluation, JobKind.EVALUATION)
    if job.status is not JobStatus.SUCCEEDED:
        raise Conflict(f"{evaluation} is {job.status.value}; only succeeded ones can be compared")
    return job


def _request(job: Job) -> CreateEvaluation:
    return CreateEvaluation.model_validate(job.request)


def _tool_calls(job: Job) -> Mapping[str | None, ToolCallScores | None]:
    """By benchmark."""
    view = evaluation_view(job)
    metrics: dict[str | None, EvaluationMetrics | None] = (
        {None: view.metrics}
        if view.benchmarks is None
        else {each.name: each.metrics for each in view.benchmarks}
    )
    return {name: found.tool_calls for name, found in metrics.items() if found is not None}


def _tool_call_comparison(
    baseline: ToolCallScores | None, candidate: ToolCallScores | None
) -> ToolCallComparison | None:
    if baseline is None or candidate is None:
        return None
    return ToolCallComparison(baseline=baseline, candidate=candidate)


def compare_evaluations(
    artifacts: Artifacts, baseline: str, pairs: Sequence[Pair]
) -> EvaluationComparison:
    """Test every candidate against the baseline, on the benchmarks that `pair_benchmarks` found."""
    from services.metrics.paired import holm  # noqa: PLC0415 - with numpy, which an idle gateway does without

    before = _read(artifacts.job(baseline), {pair.ours: pair.value for pair in pairs})
    found: list[PairedComparison] = []
    for candidate, group in groupby(pairs, key=lambda pair: pair.candidate):
        shared = list(group)
        after = _read(artifacts.job(candidate), {pair.theirs: pair.value for pair in shared})
        found += (_compare(before[pair.ours], after[pair.theirs], pair) for pair in shared)
    adjusted = holm([each.p_value for each in found])
    values = {each.value for each in found}
    return EvaluationComparison(
        baseline=baseline,
        value=values.pop() if len(values) == 1 else None,
        comparisons=[_with_verdict(each, p) for each, p in zip(found, adjusted, strict=True)],
    )


def _with_verdict(found: PairedComparison, p_adjusted: float) -> PairedComparison:
    better = None
    if p_adjusted < SIGNIFICANCE:
        is_more = found.difference > 0
        better = "candidate" if is_more == (found.direction == "maximize") else "baseline"
    return found.model_copy(update={"p_adjusted": p_adjusted, "better": better})


@dataclass
class _Items:
    """The items of a benchmark, by row: all, those without a grade, and the values of the samples
    that were not left out; None is a missing score."""

    seen: set[int] = field(default_factory=set)
    ungraded: set[int] = field(default_factory=set)
    samples: dict[int, list[float | None]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: SampleResult, value: ComparedValue) -> None:
        """Count one row."""
        self.seen.add(row.index)
        if row.correct is None:
            self.ungraded.add(row.index)
        if row.left_out is None:
            self.samples[row.index].append(_value(row, value))

    @property
    def given(self) -> Iterator[float]:
        """The values of all samples that have one."""
        return (value for each in self.samples.values() for value in each if value is not None)

    def values(self, worst: float) -> dict[int, float]:
        """The value of each item, averaged over its samples; a missing one is ``worst``."""
        return {
            index: sum(worst if value is None else value for value in each) / len(each)
            for index, each in self.samples.items()
        }


def _read(job_dir: Path, values: Mapping[str | None, ComparedValue]) -> Mapping[str | None, _Items]:
    """The items of an evaluation's benchmarks, with the requested values."""
    items: dict[str | None, _Items] = defaultdict(_Items)
    for row in read_results(job_dir):
        if row.benchmark in values:
            items[row.benchmark].add(row, values[row.benchmark])
    return items


def _value(row: SampleResult, value: ComparedValue) -> float | None:
    if value == "correct":
        return float(row.correct is True)
    if row.correct is None:
        return None
    return float(row.correct) if row.score is None else row.score


def _compare(before: _Items, after: _Items, pair: Pair) -> PairedComparison:
    from services.metrics.paired import compare  # noqa: PLC0415 - with numpy, which an idle gateway does without

    worst = worst_score(
        [*before.given, *after.given], higher_is_better=pair.direction == "maximize"
    )
    ours, theirs = before.values(worst), after.values(worst)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        name = _named(pair.candidate, pair.theirs)
        raise InvalidRequest(f"{name} and the baseline share no item", param="candidates")
    pairs = [(ours[index], theirs[index]) for index in shared]
    more = [index for index, (old, new) in zip(shared, pairs, strict=True) if new > old]
    less = [index for index, (old, new) in zip(shared, pairs, strict=True) if new < old]
    gained, lost = (more, less) if pair.direction == "maximize" else (less, more)
    result = compare(
        [old for old, _ in pairs], [new for _, new in pairs], shares=pair.value == "correct"
    )
    return PairedComparison(
        candidate=pair.candidate,
        benchmark=pair.theirs or pair.ours,
        value=pair.value,
        direction=pair.direction,
        items=len(shared),
        left_out=len(before.seen | after.seen) - len(shared),
        baseline_errors=len(before.ungraded),
        candidate_errors=len(after.ungraded),
        p_adjusted=result.p_value,
        gained=len(gained),
        lost=len(lost),
        gained_items=gained[:MAX_LISTED],
        lost_items=lost[:MAX_LISTED],
        tool_calls=pair.tool_calls,
        **asdict(result),
    )
