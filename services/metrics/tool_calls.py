"""Precision, recall and F1 of predicted tool calls, by tool and by parameter.

A sample has two lists of calls, its label and a prediction. Calls are compared as multisets: the
order of samples and calls does not matter, and a repeated call counts as often as it occurs. With
TP the occurrences in both, per sample, precision is TP / predicted, recall TP / labeled and F1
their harmonic mean; 0/0 is 0. Micro averages pool the counts, macro averages are unweighted means
over tools or parameters, including those that occur only in predictions.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

NEGATIVE = "__NEGATIVE__"
"""The virtual tool of samples that need no call."""


class InvalidCalls(Exception):
    """A label or prediction is not a list of calls; the message names the sample and the call."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool with its parameters."""

    tool: str
    params: Mapping[str, Any]


Calls = Sequence[ToolCall]


@dataclass(frozen=True, slots=True)
class Sample:
    """The expected and the predicted calls of a sample."""

    label: Calls
    prediction: Calls


@dataclass(frozen=True, slots=True)
class CompositeKey:
    """Scores one parameter of a tool separately for each of the ``types`` that another names.

    A call ``truckCheck {truckType: length, value: 9.6}`` then counts the value 9.6 under
    ``truckCheck-truckType-length``, beside its plain parameters.
    """

    tool: str
    type_param: str
    value_param: str
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How calls are compared.

    Scalars are compared by their text (100 equals "100", true "True", null "None") unless
    ``strict_types``. ``negatives`` adds the tool `NEGATIVE`, which a sample without a label, or
    without a prediction, is counted to call once.
    """

    strict_types: bool = False
    negatives: bool = False
    composites: tuple[CompositeKey, ...] = ()

    def normalized(self, value: Any) -> str:
        """A value as JSON text in which lists and objects are sorted."""
        return json.dumps(self._canonical(value), ensure_ascii=False, sort_keys=True)

    def call(self, call: ToolCall) -> tuple[str, str]:
        """The intersection of two equal calls."""
        return call.tool, self.normalized(call.params)

    def normal_calls(self, calls: Calls) -> str:
        """A text that equal multisets of calls share."""
        return json.dumps(sorted(map(self.call, calls)), ensure_ascii=False)

    def equal(self, sample: Sample) -> bool:
        """Whether label and prediction contain the same calls, in any order."""
        return Counter(map(self.call, sample.label)) == Counter(map(self.call, sample.prediction))

    def _canonical(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._canonical(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            encode = partial(json.dumps, sort_keys=True)
            return sorted(map(self._canonical, value), key=encode)
        return value if self.strict_types else str(value)


@dataclass(slots=True)
class Counts:
    """Occurrences in labels, in predictions, and in both of a sample."""

    label_count: int = 0
    pred_count: int = 0
    hit_count: int = 0

    def add(self, label: int, prediction: int, hits: int) -> None:
        """Add the occurrences of one sample."""
        self.label_count += label
        self.pred_count += prediction
        self.hit_count += hits

    @property
    def score(self) -> "Score":
        """Precision, recall and F1 of the counts."""
        precision = self.hit_count / self.pred_count if self.pred_count else 0.0
        recall = self.hit_count / self.label_count if self.label_count else 0.0
        total = self.label_count + self.pred_count
        return Score(precision, recall, 2 * self.hit_count / total if total else 0.0)


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1, each from 0 to 1."""

    precision: float
    recall: float
    f1: float


def micro_average(counts: Collection[Counts]) -> Score:
    """The score of the pooled counts."""
    pooled = Counts()
    for each in counts:
        pooled.add(each.label_count, each.pred_count, each.hit_count)
    return pooled.score


def macro_average(counts: Collection[Counts]) -> Score:
    """The unweighted means of the scores; 0 of nothing."""
    scores = [each.score for each in counts]
    number = max(len(scores), 1)
    return Score(
        sum(each.precision for each in scores) / number,
        sum(each.recall for each in scores) / number,
        sum(each.f1 for each in scores) / number,
    )


@dataclass(slots=True)
class Strict:
    """Samples whose label and prediction are equal, among all that need calls."""

    hits: int = 0
    total: int = 0


ParameterKey = tuple[str, ...]
"""A tool and its parameter, or what a `CompositeKey` has in place of one."""


@dataclass(slots=True)
class ToolCallMetrics:
    """Counts by tool, and by tool and parameter; ``wrong`` are the positions of unequal samples.

    ``single`` and ``multi`` are the samples whose label has one call, and several.
    """

    samples: int = 0

    tools: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    single: Strict = field(default_factory=Strict)
    multi: Strict = field(default_factory=Strict)
    wrong: list[int] = field(default_factory=list)
    _parameters: dict[ParameterKey, Counts] = field(default_factory=lambda: defaultdict(Counts))

    @property
    def parameters(self) -> dict[str, Counts]:
        """By ``tool-parameter``; where hyphens give two the same name, by tool and parameter as a
        JSON list."""
        return self.parameters_of(self.tools)

    def parameters_of(self, tools: Collection[str]) -> dict[str, Counts]:
        """The `parameters` of some tools."""
        number = Counter(map("-".join, self._parameters))
        return {
            name
            if number[name := "-".join(key)] == 1
            else json.dumps(key, ensure_ascii=False): each
            for key, each in self._parameters.items()
            if key[0] in tools
        }

    def add(self, sample: Sample, comparison: Comparison) -> None:
        """Count the calls of the next sample."""
        tools = partial(_tools, negatives=comparison.negatives)
        _count(self.tools, sample, tools, key=lambda tool: tool)
        parameters = partial(_parameters, comparison=comparison)
        _count(self._parameters, sample, parameters, key=lambda entry: entry[0])
        equal = comparison.equal(sample)
        if not equal:
            self.wrong.append(self.samples)
        if sample.label:
            strict = self.single if len(sample.label) == 1 else self.multi
            strict.total += 1
            strict.hits += equal
        self.samples += 1


def measure(samples: Iterable[Sample], comparison: Comparison) -> ToolCallMetrics:
    """Count the calls of all samples."""
    metrics = ToolCallMetrics()
    for sample in samples:
        metrics.add(sample, comparison)
    return metrics


def important(tools: Mapping[str, Counts], names: Collection[str]) -> dict[str, Counts]:
    """The entries of some tools, whose parameters are `ToolCallMetrics.parameters_of`."""
    return {name: each for name, each in tools.items() if name in names}


def parse_calls(value: Any, place: str) -> list[ToolCall]:
    """Read ``[{"toolName": ..., "paramList": {...}}, ...]``; a null list has no calls.

    Raises `InvalidCalls`, whose message begins with ``place``.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidCalls(f"{place} is not a list of calls")
    return [_parse_call(each, f"{place}[{number}]") for number, each in enumerate(value)]


def as_text(calls: Calls) -> str:
    """Calls as the JSON text that `parse_calls` reads."""
    plain = [{"toolName": each.tool, "paramList": dict(each.params)} for each in calls]
    return json.dumps(plain, ensure_ascii=False)


def _parse_call(value: Any, place: str) -> ToolCall:
    if not isinstance(value, dict):
        raise InvalidCalls(f"{place} is not an object with toolName and paramList")
    tool = value.get("toolName")
    if not isinstance(tool, str) or not tool:
        raise InvalidCalls(f"{place}.toolName is missing or not a text")
    params = value.get("paramList")
    if not isinstance(params, dict | None):
        raise InvalidCalls(f"{place}.paramList is not an object")
    return ToolCall(tool, params or {})


Entry = TypeVar("Entry")
Key = TypeVar("Key", str, ParameterKey)


def _count(
    table: dict[Key, Counts],
    sample: Sample,
    entries: Callable[[Calls], Iterable[Entry]],
    key: Callable[[Entry], Key],
) -> None:
    labels, predictions = Counter(entries(sample.label)), Counter(entries(sample.prediction))
    for entry in labels.keys() | predictions.keys():
        label, prediction = labels[entry], predictions[entry]
        table[key(entry)].add(label, prediction, min(label, prediction))


def _tools(calls: Calls, *, negatives: bool) -> Iterator[str]:
    yield from (call.tool for call in calls)
    if negatives and not calls:
        yield NEGATIVE


def _parameters(calls: Calls, comparison: Comparison) -> Iterator[tuple[ParameterKey, str]]:
    """The keys and values of parameters; composite keys are added to the plain ones."""
    for call in calls:
        for name, value in call.params.items():
            yield (call.tool, name), comparison.normalized(value)
        for composite in comparison.composites:
            kind = str(call.params.get(composite.type_param))
            if (
                call.tool == composite.tool
                and kind in composite.types
                and composite.value_param in call.params
            ):
                value = comparison.normalized(call.params[composite.value_param])
                yield (call.tool, composite.type_param, kind), value
