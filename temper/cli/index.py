"""``temper index``: search indexes of this machine, with or without a running platform."""

from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from pydantic import TypeAdapter, ValidationError

from services.contracts.index_messages import (
    BuildIndex,
    DeleteDocuments,
    DocumentsChanged,
    DropIndex,
    IndexBuilt,
    IndexDropped,
    Indexes,
    ListIndexes,
    Order,
    PutDocuments,
)
from services.contracts.indexes import DenseKind, IndexMode, IndexName, IndexSpecification
from temper.cli.exit_codes import ExitCode
from temper.cli.formats import duration, figure, size
from temper.cli.index_progress import OrderProgress
from temper.cli.index_view import INDEX_COLUMNS, index_fields, index_row
from temper.cli.output import JsonOption, Output
from temper.indexing.errors import OrderFailed, OrderInterrupted
from temper.indexing.order import Answer, carry_out
from temper.settings import load_settings

app = typer.Typer(help="Search indexes of this machine; no platform needs to run.")

_NAME: TypeAdapter[str] = TypeAdapter(IndexName)


def _checked_name(name: str) -> str:
    try:
        return _NAME.validate_python(name)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise typer.BadParameter(f"{name!r} {reason}") from error


Name = Annotated[str, typer.Argument(metavar="NAME", callback=_checked_name)]
CorpusOption = Annotated[
    Path,
    typer.Option(
        exists=True,
        readable=True,
        resolve_path=True,
        help="JSONL, JSON or Parquet with rows of {id, contents} or {title, text, metadata}, "
        "or a folder of text files.",
    ),
]
ModeOption = Annotated[IndexMode, typer.Option(help="What the index can be searched by.")]
LanguageOption = Annotated[
    str, typer.Option(help="Whose words are reduced to their stems (Snowball's names), or none.")
]
EncoderOption = Annotated[
    str | None,
    typer.Option(help="A sentence-transformers model, its folder or hub name: a small built-in."),
]
DenseOption = Annotated[DenseKind, typer.Option(help="How vectors are stored.")]


@app.command()
def create(
    name: Name,
    corpus: CorpusOption,
    mode: ModeOption = IndexMode.BM25,
    language: LanguageOption = "english",
    encoder: EncoderOption = None,
    dense: DenseOption = DenseKind.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Build an index from a corpus. It replaces one of the same name once it is complete.

    A build that was ended goes on where it was when it is ordered again.
    """
    out = Output(as_json)
    specification = IndexSpecification(
        mode=mode,
        language=None if language == "none" else language,
        encoder=_folder_or_hub_name(encoder),
        dense=dense,
    )
    order = BuildIndex(
        index=name,
        corpus=corpus,
        corpus_name=corpus.name,
        specification=specification,
        build=uuid4().hex,
    )
    built = _carried_out(out, order, IndexBuilt)
    if as_json:
        out.document(built)
        return
    metrics = built.metrics
    out.line(
        f"built {name} {built.version}: {metrics.documents:,} documents in "
        f"{duration(metrics.seconds)} ({figure(metrics.documents_per_second)} a second), "
        f"{size(metrics.bytes_on_disk)}"
    )


@app.command("list")
def list_indexes(as_json: JsonOption = False) -> None:
    """List the indexes."""
    out = Output(as_json)
    indexes = _carried_out(out, ListIndexes(), Indexes)
    if as_json:
        out.document(indexes)
        return
    out.table(INDEX_COLUMNS, map(index_row, indexes.indexes))


@app.command()
def show(name: Name, as_json: JsonOption = False) -> None:
    """Show one index."""
    out = Output(as_json)
    (index,) = _carried_out(out, ListIndexes(index=name), Indexes).indexes
    if as_json:
        out.document(index)
    else:
        out.fields(index_fields(index))


@app.command()
def drop(name: Name, as_json: JsonOption = False) -> None:
    """Delete an index."""
    out = Output(as_json)
    dropped = _carried_out(out, DropIndex(index=name), IndexDropped)
    if as_json:
        out.document(dropped)
    else:
        out.line(f"deleted {name}")


@app.command()
def add(name: Name, corpus: CorpusOption, as_json: JsonOption = False) -> None:
    """Add the passages of a corpus to an index, or replace those of the same ids."""
    out = Output(as_json)
    order = PutDocuments(index=name, corpus=corpus, corpus_name=corpus.name)
    _print_changed(out, _carried_out(out, order, DocumentsChanged), "added or replaced")


@app.command()
def delete(
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of passages.")],
    as_json: JsonOption = False,
) -> None:
    """Delete passages of an index by their ids."""
    out = Output(as_json)
    order = DeleteDocuments(index=name, ids=ids)
    _print_changed(out, _carried_out(out, order, DocumentsChanged), "deleted")


def _folder_or_hub_name(encoder: str | None) -> str | None:
    """A folder by its full path: the process that reads it may stand elsewhere."""
    if encoder is not None and Path(encoder).expanduser().is_dir():
        return str(Path(encoder).expanduser().resolve())
    return encoder


def _carried_out(out: Output, order: Order, into: type[Answer]) -> Answer:
    try:
        with OrderProgress(out).shown() as progress:
            return carry_out(order, into, load_settings(), progress)
    except OrderInterrupted as error:
        out.note(error.message)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except OrderFailed as error:
        for problem in error.problems:
            out.note(f"  {problem}", "red")
        raise


def _print_changed(out: Output, changed: DocumentsChanged, verb: str) -> None:
    if out.as_json:
        out.document(changed)
    else:
        out.line(f"{verb} {changed.changed:,}; {changed.index} has {changed.documents:,} documents")
