"""``temper metrics agreement``: how far a judge's labels match human ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from temper.cli.data.json_values import InvalidInput, read_values
from temper.cli.output import Output

if TYPE_CHECKING:
    from services.metrics.agreement import Agreement

SHOWN_PAIRS = 20
MAX_LABEL = 100
"""Characters per label; anything longer is an answer, not a label."""

Labels = Annotated[
    Path,
    typer.Option(exists=True, dir_okay=False, help="Human labels: a JSON list or JSON lines."),
]
Predictions = Annotated[
    Path,
    typer.Option(exists=True, dir_okay=False, help="The judge's labels, in the same order."),
]
LabelField = Annotated[str, typer.Option("--field", help="Record field that holds the label.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON document.")]


def measure_agreement(
    labels: Labels,
    predictions: Predictions,
    field: LabelField = "label",
    as_json: AsJson = False,
) -> None:
    """Compute Cohen's kappa of two label files, and list the pairs that disagree."""
    from services.metrics.agreement import agreement

    first, second = _labels(labels, field), _labels(predictions, field)
    if len(first) != len(second):
        raise InvalidInput(f"there are {len(first)} labels but {len(second)} predictions")
    rated = [
        (one, other)
        for one, other in zip(first, second, strict=True)
        if one is not None and other is not None
    ]
    left_out = len(first) - len(rated)
    try:
        found = agreement(rated)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    if as_json:
        sys.stdout.write(json.dumps(_document(found, left_out), ensure_ascii=False) + "\n")
    else:
        _print(found, left_out)


def _labels(file: Path, field: str) -> list[str | None]:
    return [_label(value, field, f"{file}: row {n}") for n, value in enumerate(read_values(file))]


def _label(value: Any, field: str, place: str) -> str | None:
    if isinstance(value, dict):
        if field not in value:
            raise InvalidInput(f"{place} has no field {field}")
        value, place = value[field], f"{place}, {field}"
    if value is None:
        return None
    if isinstance(value, bool | int):
        return json.dumps(value)
    if not isinstance(value, str) or len(value) > MAX_LABEL:
        raise InvalidInput(
            f"{place}: a label is a string of at most {MAX_LABEL} characters, an integer, "
            "true, false or null"
        )
    return value.strip()


def _document(found: Agreement, left_out: int) -> dict[str, Any]:
    return {
        "items": found.items,
        "left_out": left_out,
        "observed": found.observed,
        "expected": found.expected,
        "kappa": found.kappa,
        "stderr": found.stderr,
        "ci95": found.ci95,
        "pairs": [
            {"label": one, "prediction": other, "items": count}
            for (one, other), count in found.pairs.items()
        ],
    }


def _print(found: Agreement, left_out: int) -> None:
    out = Output(as_json=False)
    out.line(f"{found.items} items, {left_out} skipped without a label")
    out.line(f"observed agreement: {found.observed:.4f}; expected by chance: {found.expected:.4f}")
    if found.kappa is None or found.ci95 is None:
        out.line("kappa: undefined, every label is the same")
    else:
        low, high = found.ci95
        out.line(f"kappa: {found.kappa:.4f} (95 % interval {low:.4f} to {high:.4f})")
    disagreements = [
        (*pair, str(count)) for pair, count in found.pairs.items() if pair[0] != pair[1]
    ]
    if disagreements:
        out.line("")
        out.table(("LABEL", "PREDICTION", "ITEMS"), disagreements[:SHOWN_PAIRS])
    if len(disagreements) > SHOWN_PAIRS:
        out.note(f"{len(disagreements) - SHOWN_PAIRS} more pairs; --json lists all")
