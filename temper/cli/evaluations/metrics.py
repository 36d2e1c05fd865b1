"""``temper metrics``: metrics of files with labels and predictions, computed here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from services.contracts.validation import first_fault
from temper.cli.data.json_values import InvalidInput, read_values
from temper.cli.evaluations.agreement import measure_agreement
from temper.cli.evaluations.contamination import contamination
from temper.cli.output import Output

if TYPE_CHECKING:
    from services.metrics.tool_call_report import ToolCallReport
    from services.metrics.tool_calls import CompositeKey, Strict

app = typer.Typer(help="Metrics of files with labels and predictions, computed here.")
app.command("agreement")(measure_agreement)
app.command("contamination")(contamination)

Labels = Annotated[
    Path,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Calls of the golds: a JSON list or JSON lines, one per sample.",
    ),
]
Predictions = Annotated[
    Path,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Predicted calls, in the format and order of --labels; calls in text are parsed.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", dir_okay=False, help="Write a report: .xlsx, .json, .csv, .html, .md."
    ),
]
Negative = Annotated[
    bool, typer.Option("--negative", help="Count samples without calls as the tool __NEGATIVE__.")
]
StrictTypes = Annotated[
    bool, typer.Option("--strict-types", help='Treat 100 and "100", true and "True" as different.')
]
Composite = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="YAML: {tool: {type: param, value: param, types: [...]}}."
    ),
]
Important = Annotated[str, typer.Option(metavar="A,B", help="Also average over these tools only.")]
AnswerPath = Annotated[
    str, typer.Option("--path", help="Path of the calls within a JSON object in text.")
]
AllRows = Annotated[bool, typer.Option("--all", help="List all rows, not only the wrong ones.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the metrics as one JSON document.")]


class _Composite(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: str = Field(min_length=1)
    value: str = Field(min_length=1)
    types: frozenset[str] = Field(min_length=1)


class _Composites(RootModel[dict[str, _Composite]]):
    """Composite keys by tool."""


@app.callback()
def group() -> None:
    """Metrics of files with labels and predictions, computed here."""


@app.command("tool-calls")
def tool_calls(
    labels: Labels,
    predictions: Predictions,
    target: Target = None,
    negative: Negative = False,
    strict_types: StrictTypes = False,
    composite: Composite = None,
    important: Important = "",
    path: AnswerPath = "label",
    all_rows: AllRows = False,
    as_json: AsJson = False,
) -> None:
    """Compute precision, recall and F1 of tool calls, by tool and by parameter."""
    from services.metrics.reports.writers import write_document
    from services.metrics.tool_call_report import FORMATS, ToolCallReport
    from services.metrics.tool_call_rows import pair_rows
    from services.metrics.tool_calls import Comparison, InvalidCalls, measure

    if target is not None and target.suffix not in FORMATS:
        raise typer.BadParameter(f"-o: a report is one of {', '.join(FORMATS)}")
    try:
        rows = pair_rows(list(read_values(labels)), list(read_values(predictions)), path)
    except InvalidCalls as error:
        raise InvalidInput(str(error)) from error
    composites = _read_composites(composite) if composite else ()
    comparison = Comparison(strict_types, negative, composites)
    names = tuple(filter(None, map(str.strip, important.split(","))))
    metrics = measure((row.sample for row in rows), comparison)
    unknown = [name for name in names if name not in metrics.tools]
    if unknown:
        known = ", ".join(sorted(metrics.tools)) or "none"
        raise InvalidInput(f"--important: no tool {unknown[0]!r}; the tools are {known}")
    report = ToolCallReport(metrics, rows, names, all_rows)
    if target is not None:
        write_document(report.document(), target)
    if as_json:
        sys.stdout.write(json.dumps(report.as_json(), ensure_ascii=False, indent=2) + "\n")
    else:
        _print(report, target)


def _print(report: ToolCallReport, target: Path | None) -> None:
    from services.metrics.reports.document import cell_text
    from services.metrics.tool_call_rows import outcomes

    out = Output(as_json=False)
    for _, table in report.metric_tables():
        out.table(table.columns, [list(map(cell_text, row)) for row in table.rows])
        out.line("")
    metrics, found = report.metrics, outcomes(report.rows)
    out.line(f"exact matches with one call: {_share(metrics.single)}")
    out.line(f"exact matches with several calls: {_share(metrics.multi)}")
    out.line(f"no JSON: {found['no_json']}; invalid JSON: {found['invalid_json']}")
    if target is not None:
        out.note(f"wrote {target}")


def _share(strict: Strict) -> str:
    return f"{strict.hits} of {strict.total}"


def _read_composites(file: Path) -> tuple[CompositeKey, ...]:
    import yaml

    from services.metrics.tool_calls import CompositeKey
    from services.parsing.yaml_text import parse_yaml

    try:
        found = _Composites.model_validate(parse_yaml(file.read_text(encoding="utf-8"))).root
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: not YAML: {error}") from error
    except ValidationError as error:
        raise InvalidInput(f"{file}: {first_fault(error).sentence('the file')}") from error
    return tuple(
        CompositeKey(tool, each.type, each.value, each.types) for tool, each in found.items()
    )
