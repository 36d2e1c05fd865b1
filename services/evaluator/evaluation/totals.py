"""Totals of an evaluation: of a benchmark's rows, and over benchmarks that share one engine."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from services.contracts.evaluation.results import (
    EvaluationMetrics,
    ItemEstimate,
    MeasureEstimate,
    ParsingOutcome,
    SampleResult,
    SubtaskSamples,
    ToolUse,
    ToolUseMetrics,
)
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.trajectories import TRUNCATED
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.tool_call_totals import ToolCallTotals
from services.metrics.measures import PLAIN, MeasureRules, Measures, mean_of_clusters
from services.metrics.missing_scores import worst_score
from services.metrics.repeated import Estimate, RepeatedSamples, shown_k

_GROUP = "tools"
_COUNTS = MeasureRules(
    unbounded=frozenset(ToolUse.model_fields) - {"trajectory"},
)


@dataclass
class ToolUseTotals:
    """Tool usage: sums over the answered rows with tools, independent of their order."""

    calls: int = 0
    failed_calls: int = 0
    malformed_calls: int = 0
    _endings: Counter[str] = field(default_factory=Counter)
    _per_sample: Measures = field(default_factory=lambda: Measures(_COUNTS))

    def add(self, row: SampleResult) -> None:
        """Count one row; one without an answer or without tools counts for nothing."""
        if row.tools is None or row.answer is None:
            return
        self.calls += row.tools.calls
        self.failed_calls += row.tools.failed_calls
        self.malformed_calls += row.tools.malformed_calls
        self._endings[row.finish_reason or ""] += 1
        numbers = row.tools.model_dump(exclude={"trajectory"})
        self._per_sample.add(_GROUP, row.index, numbers)

    def metrics(self) -> ToolUseMetrics | None:
        """The sums and the means, whose intervals are over items; None without such a row."""
        if not self._endings:
            return None
        means = self._per_sample.means()[_GROUP]
        # At the same accuracy, an answer that takes less is cheaper.
        return ToolUseMetrics(
            calls=self.calls,
            failed_calls=self.failed_calls,
            malformed_calls=self.malformed_calls,
            endings=dict(self._endings),
            per_sample={
                name: MeasureEstimate(**asdict(mean), lower_is_better=True)
                for name, mean in means.items()
            },
        )


@dataclass
class RunningTotals:
    """Sums over rows, independent of their order.

    ``seconds`` is the time spent generating, over all attempts. ``extracts``: the grader names what
    it compared, so that an answer without it is unparsable. ``tool_calls`` counts the calls in
    answers, where these are graded. ``rules`` are those of the grader's measures. ``has_subtasks``:
    the groups of rows are sub-tasks, also of those without a grade. Scores are within
    ``score_range``, where all of them are. With ``lower_is_better`` the worst score is the highest.
    ``compares``: the grader compares answers with each other, so that `unite_votes` may follow.
    ``normal_form`` is that of an answer's vote where rows of earlier versions have another one.
    """

    samples_per_item: int = 1
    extracts: bool = False
    tool_calls: ToolCallTotals | None = None
    rules: MeasureRules = PLAIN
    has_subtasks: bool = True
    score_range: tuple[float, float] = (0.0, 1.0)
    lower_is_better: bool = False
    compares: bool = False
    normal_form: Callable[[str], str] | None = None
    samples: int = 0
    correct: int = 0
    errors: int = 0
    left_out: int = 0
    last_left_out: LeftOut | None = None
    unanswered: int = 0
    unparsable: int = 0
    cut_off: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    _left_out: Counter[InfrastructureCause] = field(default_factory=Counter)
    _parsing: Counter[ParsingOutcome] = field(default_factory=Counter)
    _scores: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    _ungraded: Counter[int] = field(default_factory=Counter)
    _measures: Measures = field(init=False)
    _subtasks: dict[str, SubtaskSamples] = field(default_factory=dict)
    _tool_use: ToolUseTotals = field(default_factory=ToolUseTotals)
    _repeated: RepeatedSamples = field(init=False)

    def __post_init__(self) -> None:
        self._measures = Measures(self.rules)
        self._repeated = RepeatedSamples(self.samples_per_item)

    @property
    def answered(self) -> int:
        """Samples with a grade, correct or not."""
        return self.samples - self.errors

    @property
    def accuracy(self) -> float:
        """The fraction of correct answers so far; a sample without a grade is incorrect."""
        return self.correct / self.samples if self.samples else 0.0

    def add(self, row: ResultRow) -> None:
        """Count one row; one that is left out, in ``left_out`` only."""
        if row.left_out is not None:
            self.left_out += 1
            self.last_left_out = row.left_out
            self._left_out[row.left_out.cause] += 1
            return
        self.samples += 1
        self.cut_off += row.answer is not None and row.finish_reason in TRUNCATED
        self.correct += row.correct is True
        self._repeated.add(
            row.index,
            correct=row.correct is True,
            answer=self._vote(row),
            compared=row.extracted if self.compares else None,
        )
        if row.group is not None:
            self._measures.add(row.group, row.index, row.measures or {})
            if self.has_subtasks:
                self._add_to_subtask(row.group, row)
        if row.correct is None:
            self.errors += 1
            self._ungraded[row.index] += 1
            self.unanswered += row.answer is None
        else:
            score = float(row.correct) if row.score is None else row.score
            self._scores[row.index].append(score)
            self.unparsable += self.extracts and row.extracted is None
        self._tool_use.add(row)
        if self.tool_calls is not None:
            self.tool_calls.add(row)
        if row.parsing is not None:
            self._parsing[row.parsing] += 1
        self.prompt_tokens += row.prompt_tokens or 0
        self.completion_tokens += row.completion_tokens or 0

    def _vote(self, row: ResultRow) -> str | None:
        if self.normal_form is not None and row.extracted is not None:
            return self.normal_form(row.extracted)
        return row.extracted if row.vote is None else row.vote

    @property
    def repeated(self) -> RepeatedSamples:
        """The samples of each item and their votes."""
        return self._repeated

    def _add_to_subtask(self, name: str, row: ResultRow) -> None:
        found = self._subtasks.setdefault(name, SubtaskSamples(samples=0, errors=0, unanswered=0))
        found.samples += 1
        found.errors += row.correct is None
        found.unanswered += row.correct is None and row.answer is None

    def metrics(self) -> EvaluationMetrics:
        """The outcome; needs at least one sample that is not left out."""
        share, majority = self._repeated.accuracy(), None
        worst = self._worst_score()
        filled = None if worst is None else self._filled(worst)
        score = None if filled is None else mean_of_clusters(filled, self.score_range)
        pass_at_k: dict[str, ItemEstimate] | None = None
        if self.samples_per_item > 1:
            pass_at_k = {
                str(k): _on_the_wire(self._repeated.pass_at(k))
                for k in shown_k(self.samples_per_item)
                if k <= self._repeated.most_samples  # some may have been left out
            }
            majority = self._repeated.majority()
        return EvaluationMetrics(
            samples=self.samples,
            correct=self.correct,
            errors=self.errors,
            items=self._repeated.items,
            samples_per_item=self.samples_per_item,
            left_out=self.left_out,
            left_out_causes=dict(self._left_out) or None,
            unanswered=self.unanswered,
            unparsable=self.unparsable,
            cut_off=self.cut_off,
            parsing=dict(self._parsing) or None,
            pass_at_k=pass_at_k,
            measures=self._measured() or None,
            subtasks=dict(sorted(self._subtasks.items())) or None,
            majority=_on_the_wire(majority) if majority else None,
            tool_use=self._tool_use.metrics(),
            tool_calls=None if self.tool_calls is None else self.tool_calls.scores(),
            accuracy=share.mean,
            worst_score=worst,
            mean_score=score.mean if score else None,
            mean_score_stderr=score.stderr if score else None,
            mean_score_ci95=score.ci95 if score else None,
            stderr=share.stderr,
            ci95=share.ci95,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            generation_seconds=self.seconds,
            tokens_per_second=self.completion_tokens / self.seconds if self.seconds else 0.0,
        )

    def _worst_score(self) -> float | None:
        """What a sample without a score counts as; None if 0 could be the best score."""
        given = [score for scores in self._scores.values() for score in scores]
        if not given and self.lower_is_better:
            return None
        return worst_score(given, higher_is_better=not self.lower_is_better)

    def _filled(self, worst: float) -> dict[int, list[float]]:
        """The scores of each item, with those of its samples that have none."""
        return {
            item: [*self._scores.get(item, ()), *[worst] * self._ungraded[item]]
            for item in self._scores.keys() | self._ungraded.keys()
        }

    def _measured(self) -> dict[str, dict[str, MeasureEstimate]]:
        lower = self.rules.lower_is_better
        return {
            group: {
                name: MeasureEstimate(**asdict(mean), lower_is_better=name in lower)
                for name, mean in means.items()
            }
            for group, means in self._measures.means().items()
        }


def _on_the_wire(estimate: Estimate) -> ItemEstimate:
    return ItemEstimate(**asdict(estimate))


class SuiteTotals:
    """The totals of all benchmarks of an evaluation, by name; None names the only one.

    ``seconds`` is the time spent generating, over all attempts.
    """

    def __init__(
        self, benchmarks: Mapping[str | None, RunningTotals], seconds: float = 0.0
    ) -> None:
        self.seconds = seconds
        self._benchmarks = benchmarks

    @property
    def unit(self) -> str:
        """What is counted."""
        return "samples"

    @property
    def done(self) -> int:
        """Samples that were asked, answered or not."""
        return sum(each.samples + each.left_out for each in self._benchmarks.values())

    @property
    def answered(self) -> int:
        """Samples with a grade, correct or not."""
        return sum(each.answered for each in self._benchmarks.values())

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(each.completion_tokens for each in self._benchmarks.values())

    def add(self, row: ResultRow) -> None:
        """Count one row."""
        self._benchmarks[row.benchmark].add(row)

    def metrics_so_far(self) -> dict[str, float]:
        """Metrics reported while samples are asked: the accuracy of each benchmark that has any
        which are not left out."""
        accuracies = {
            "accuracy" if name is None else f"accuracy/{name}": each.accuracy
            for name, each in self._benchmarks.items()
            if each.samples
        }
        errors = sum(each.errors for each in self._benchmarks.values())
        left_out = sum(each.left_out for each in self._benchmarks.values())
        return {**accuracies, "errors": errors, "samples_left_out": left_out}

    def metrics(self) -> Mapping[str | None, EvaluationMetrics]:
        """The outcome of each benchmark; needs a sample of each.

        The answers of several benchmarks overlap in time: each has the share of the seconds that
        it has of the tokens.
        """
        for each in self._benchmarks.values():
            share = (
                each.completion_tokens / self.tokens if self.tokens else 1 / len(self._benchmarks)
            )
            each.seconds = self.seconds * share
        return {name: each.metrics() for name, each in self._benchmarks.items()}
