"""Labels and predictions in common formats: parsed calls, records with fields, or model text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.metrics.extraction import ExtractionOutcome, at_path, extract_all, extract_json
from services.metrics.tool_calls import Calls, InvalidCalls, Sample, parse_calls

LABEL_FIELDS = ("label",)
PREDICTION_FIELDS = ("prediction", "pred", "result", "label")
"""Fields of a record that may contain its calls; the first one present is used."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sample; ``record`` are the fields of its label's record, if it came in one.

    ``outcome`` tells what became of a prediction given as text.
    """

    sample: Sample
    outcome: ExtractionOutcome
    record: dict[str, Any]


def pair_rows(labels: Sequence[Any], predictions: Sequence[Any], path: str = "label") -> list[Row]:
    """Pair labels with predictions by position.

    Each is a list of calls, a record with such a list in a field, or a text. The JSON in a text is
    the list itself, or holds it at the dotted ``path``. A predicted text without valid calls is a
    prediction of nothing.

    Raises `InvalidCalls`, which names the first sample (from 0) that is not readable.
    """
    if not labels:
        raise InvalidCalls("there are no labels")
    if len(labels) != len(predictions):
        raise InvalidCalls(f"there are {len(labels)} labels but {len(predictions)} predictions")
    return [
        _row(label, prediction, number, path)
        for number, (label, prediction) in enumerate(zip(labels, predictions, strict=True))
    ]


def outcomes(rows: Sequence[Row]) -> dict[str, int]:
    """How many predictions had each outcome."""
    found = Counter(row.outcome for row in rows)
    return {outcome.value: found[outcome] for outcome in ExtractionOutcome}


def predict(text: str, path: str) -> tuple[Calls, ExtractionOutcome]:
    """All calls that a model's text states, as `extract_all` finds them; none unless it states
    valid ones."""
    found = extract_all(text, lambda value: _has_calls(value, path), is_whole=lambda _: True)
    if found.outcome is not ExtractionOutcome.PARSED:
        return [], found.outcome
    return [
        call for each in found.value for call in calls_of(each, path, "the text")
    ], found.outcome


def calls_of(value: Any, path: str, place: str) -> Calls:
    """The calls of a JSON value: the list itself, or the one at ``path``; raises `InvalidCalls`."""
    if isinstance(value, list):
        return parse_calls(value, place)
    try:
        return parse_calls(at_path(value, path), f"{place}.{path}")
    except LookupError as error:
        raise InvalidCalls(f"{place} has no field {path}") from error


def _has_calls(value: Any, path: str) -> bool:
    try:
        calls_of(value, path, "the text")
    except InvalidCalls:
        return False
    return True


def _row(label: Any, prediction: Any, number: int, path: str) -> Row:
    record = label if isinstance(label, dict) else {}
    place = f"sample {number}: label"
    wanted = _field(label, LABEL_FIELDS, place)
    if isinstance(wanted, str):
        found = extract_json(wanted)
        if found.outcome is not ExtractionOutcome.PARSED:
            raise InvalidCalls(f"{place} is a text without valid JSON")
        needed: Calls = calls_of(found.value, path, place)
    else:
        needed = parse_calls(wanted, place)
    place = f"sample {number}: prediction"
    given = _field(prediction, PREDICTION_FIELDS, place)
    if isinstance(given, str):
        predicted, outcome = predict(given, path)
    else:
        predicted, outcome = parse_calls(given, place), ExtractionOutcome.PARSED
    return Row(Sample(needed, predicted), outcome, record)


def _field(value: Any, names: Sequence[str], place: str) -> Any:
    if not isinstance(value, dict):
        return value
    for name in names:
        if name in value:
            return value[name]
    raise InvalidCalls(f"{place}: the record has none of the fields {', '.join(names)}")
