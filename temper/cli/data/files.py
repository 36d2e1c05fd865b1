"""``temper files``: uploaded files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.contracts.data.files import MAX_EXAMPLE_ROWS, FilePurpose
from services.contracts.training.methods import MethodType
from temper.cli.commands import COMMANDS
from temper.cli.data.example_text import example_lines
from temper.cli.gateway import connect
from temper.cli.output import JsonOption, Output, transfer_bar
from temper.cli.requests.commands import with_deferred
from temper.cli.units import age, size

if TYPE_CHECKING:
    from services.contracts.data.files import File

app = typer.Typer(
    help="Uploaded files.",
    cls=with_deferred("check", COMMANDS["check"].summary, COMMANDS["check"].target),
)

FileId = Annotated[str, typer.Argument(metavar="ID")]
Purpose = Annotated[FilePurpose, typer.Option("--purpose", "-p", help="Purpose of the file.")]
AnyPurpose = Annotated[
    FilePurpose | None, typer.Option("--purpose", "-p", help="Only files with this purpose.")
]
LocalFile = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)
]
Most = Annotated[int, typer.Option("-n", min=1, max=10_000, help="Maximum number of files.")]


@app.command("list")
def list_files(purpose: AnyPurpose = None, most: Most = 20, as_json: JsonOption = False) -> None:
    """List files, newest first."""
    out = Output(as_json)
    with connect() as client:
        page = client.files.page(purpose=purpose, most=most)
    if as_json:
        out.document(page)
        return
    rows = [
        (file.id, file.filename, file.purpose.value, size(file.bytes), age(file.created_at))
        for file in page.data
    ]
    out.table(("ID", "NAME", "PURPOSE", "SIZE", "AGE"), rows)


@app.command()
def show(file_id: FileId, as_json: JsonOption = False) -> None:
    """Show a file's metadata."""
    out = Output(as_json)
    with connect() as client:
        _print(out, client.files.get(file_id))


@app.command()
def upload(
    path: LocalFile, purpose: Purpose = FilePurpose.FINE_TUNE, as_json: JsonOption = False
) -> None:
    """Upload a file."""
    out = Output(as_json)
    with connect() as client, transfer_bar(out, f"uploading {path.name}") as progress:
        stored = client.files.upload(path, purpose, progress)
    _print(out, stored)


@app.command()
def download(
    file_id: FileId,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Target path; default: the file's name, in the current folder."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Download a file."""
    out = Output(as_json)
    with connect() as client:
        file = client.files.get(file_id)
        # The uploader chose the name: use its last component only.
        target = output or Path(Path(file.filename).name)
        if target.exists() and not force:
            raise typer.BadParameter(f"{target} exists; --force replaces it")
        with transfer_bar(out, f"downloading {file.filename}") as progress:
            client.files.download(file_id, target, progress)
    out.note(f"saved as {target}")
    if as_json:
        out.document(file)


@app.command()
def rows(
    file_id: FileId,
    after: Annotated[
        str | None, typer.Option("--after", help="Start after this row number.")
    ] = None,
    most: Annotated[int, typer.Option("-n", min=1, max=100, help="Maximum number of rows.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show rows of a file, one JSON object per line."""
    out = Output(as_json)
    with connect() as client:
        page = client.files.rows(file_id, after=after, most=most)
    if as_json:
        out.document(page)
        return
    for row in page.data:
        shown = row.problem or json.dumps(row.value, ensure_ascii=False)
        out.line(f"{row.row}: {shown}")
    if page.problem:
        out.note(page.problem, "red")
    if page.has_more:
        out.note(f"more with: temper files rows {file_id} --after {page.last_id}", "dim")


@app.command()
def examples(
    file_id: FileId,
    model: Annotated[str, typer.Option("--model", help="Model to train.")],
    method: Annotated[
        MethodType, typer.Option("--method", "-m", help="Training method.")
    ] = MethodType.SUPERVISED,
    hyperparameters: Annotated[
        str, typer.Option("--hyperparameters", help="The method's hyperparameters, as JSON.")
    ] = "{}",
    after: Annotated[
        str | None, typer.Option("--after", help="Start after this row number.")
    ] = None,
    most: Annotated[
        int, typer.Option("-n", min=1, max=MAX_EXAMPLE_ROWS, help="Maximum number of rows.")
    ] = 5,
    as_json: JsonOption = False,
) -> None:
    """Show rows as training reads them, one token per line; 1 marks tokens with a loss."""
    from services.contracts.data.file_rows import ShowExamples
    from services.contracts.training.fine_tuning import Method

    out = Output(as_json)
    try:
        given = {"hyperparameters": json.loads(hyperparameters)}
        asked = Method.model_validate({"type": method, method.value: given})
        body = ShowExamples(model=model, method=asked, after=after, limit=most)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with connect() as client:
        page = client.files.examples(file_id, body)
    if as_json:
        out.document(page)
        return
    for row in page.data:
        for line in example_lines(row):
            out.line(line)
    if page.problem:
        out.note(page.problem, "red")
    if page.has_more:
        out.note(f"more with: --after {page.last_id}", "dim")


@app.command()
def delete(file_id: FileId, as_json: JsonOption = False) -> None:
    """Delete a file."""
    out = Output(as_json)
    with connect() as client:
        deleted = client.files.delete(file_id)
    if as_json:
        out.document(deleted)
    else:
        out.line(f"deleted {deleted.id}")


def _print(out: Output, file: File) -> None:
    if out.as_json:
        out.document(file)
        return
    out.fields(
        {
            "id": file.id,
            "name": file.filename,
            "purpose": file.purpose.value,
            "size": size(file.bytes),
            "sha256": file.sha256,
            "created": age(file.created_at),
            "status": file.status,
        }
    )
