"""``temper datasets``: rows that campaigns turn into training data."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from services.contracts.data.datasets import DatasetName
from temper.cli.gateway import connect
from temper.cli.output import JsonOption, Output, transfer_bar
from temper.cli.units import age, size
from temper.datasets.published import PUBLISHED_DATASETS

if TYPE_CHECKING:
    from services.contracts.data.datasets import Dataset, TokenStatistics

app = typer.Typer(help="Datasets that campaigns may use.")

_NAME: TypeAdapter[str] = TypeAdapter(DatasetName)
Name = Annotated[str, typer.Argument(metavar="NAME")]


@app.command()
def add(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"Name: {', '.join(PUBLISHED_DATASETS)}, or one of your own."
        ),
    ],
    source: Annotated[
        str | None,
        typer.Argument(
            help="A file, a folder, or hf://OWNER/NAME/FOLDER; default: the published NAME."
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="Description for the campaign's LLM.")] = "",
    license_name: Annotated[
        str | None, typer.Option("--license", help="License; default: the one on the hub.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Number of rows to take, from the first; default: all."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Register rows (JSON Lines, JSON, Parquet, CSV) under a name; test files are skipped."""
    from services.contracts.data.datasets import RegisterDataset
    from services.contracts.data.files import FilePurpose
    from temper.datasets.rows import write_rows
    from temper.datasets.sources import open_source
    from temper.submission.submission import LocalFile, SubmissionError
    from temper.submission.submit import Reporting, stored

    out = Output(as_json)
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        raise SubmissionError(f"{name!r}: use letters, digits, _ and -, at most 64") from error
    found = open_source(source or name)
    with connect() as client, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.jsonl"
        if write_rows(path, found.rows, rows) == 0:
            raise SubmissionError(f"{source or name}: has no rows")
        report = Reporting(out.note, lambda label: transfer_bar(out, label))
        request = RegisterDataset(
            name=name,
            file=stored(client, LocalFile("file", path, FilePurpose.USER_DATA), report),
            description=description or found.description,
            license=license_name or found.license,
            source=found.origin,
        )
        dataset = client.datasets.register(request)
    _print(out, dataset)


@app.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List datasets by name."""
    out = Output(as_json)
    with connect() as client:
        found = client.datasets.list()
    if as_json:
        for each in found:
            out.json_line(each)
        return
    out.table(
        ("NAME", "ROWS", "TOKENS", "SIZE", "LICENSE", "SOURCE", "AGE"),
        (
            (
                each.id,
                f"{each.statistics.rows:,}",
                f"~{each.statistics.tokens.total:,}",
                size(each.bytes),
                each.license or "",
                each.source or "",
                age(each.created_at),
            )
            for each in found
        ),
    )


@app.command()
def show(
    name: Name,
    model: Annotated[
        str | None,
        typer.Option(help="Count tokens with this model's tokenizer; default: estimate them."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a dataset: fields, lengths and the first rows."""
    out = Output(as_json)
    with connect() as client:
        _print(out, client.datasets.get(name, model))


@app.command()
def remove(name: Name) -> None:
    """Unregister a dataset; its file stays."""
    out = Output(as_json=False)
    with connect() as client:
        client.datasets.delete(name)
    out.note(f"removed {name}")


def _tokens(tokens: TokenStatistics) -> str:
    counted = f"{tokens.total:,} of {tokens.model}" if tokens.model else f"~{tokens.total:,}"
    first = f" in the first {tokens.rows:,} rows" if tokens.rows else ""
    why = f" (estimated: {tokens.not_counted})" if tokens.not_counted else ""
    return (
        f"{counted}{first}{why}; per row: mean {tokens.mean:.0f}, median {tokens.median}, "
        f"p95 {tokens.p95}, max {tokens.longest}"
    )


def _print(out: Output, dataset: Dataset) -> None:
    if out.as_json:
        out.document(dataset)
        return
    statistics = dataset.statistics
    tokens = statistics.tokens
    out.fields(
        {
            "name": dataset.id,
            "description": dataset.description,
            "license": dataset.license,
            "source": dataset.source,
            "file": f"{dataset.file}, {size(dataset.bytes)}",
            "rows": f"{statistics.rows:,}",
            "tokens": _tokens(tokens),
        }
    )
    out.table(
        ("FIELD", "TYPE", "FILLED"),
        (
            (each.name, ", ".join(each.types), f"{each.filled / statistics.rows:.0%}")
            for each in statistics.fields
        ),
    )
    for sample in statistics.samples:
        out.line(json.dumps(sample, ensure_ascii=False), "dim")
