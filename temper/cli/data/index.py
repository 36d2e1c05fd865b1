"""``temper index``: search indexes on this machine, with or without a running stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from pydantic import TypeAdapter, ValidationError

from services.contracts.retrieval.indexes import IndexMode, IndexName
from services.contracts.retrieval.search import MAX_TOPK
from services.contracts.validation import first_fault
from temper.cli.exit_codes import ExitCode
from temper.cli.output import JsonOption, Output
from temper.cli.requests.flags import Flag, Flags, takes_request
from temper.cli.units import age, duration, number, size
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from services.contracts.base import JsonObject
    from services.contracts.retrieval.index_messages import IndexMessage, PassagesChanged
    from services.contracts.retrieval.indexes import IndexSummary
    from temper.indexing import Answer

app = typer.Typer(help="Search indexes on this machine; needs no running stack.")

_NAME: TypeAdapter[str] = TypeAdapter(IndexName)


def _checked_name(name: str) -> str:
    try:
        return _NAME.validate_python(name)
    except ValidationError as error:
        reason = first_fault(error).message
        raise typer.BadParameter(f"{name!r} {reason}") from error


Name = Annotated[str, typer.Argument(metavar="NAME", callback=_checked_name)]
CorpusOption = Annotated[
    Path,
    typer.Option(
        exists=True,
        readable=True,
        resolve_path=True,
        help="JSONL (also .gz), JSON or Parquet with rows of {id, contents} or {title, text, "
        "metadata}, a folder of such shards, or a folder of text files.",
    ),
]
VectorsOption = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        readable=True,
        resolve_path=True,
        help="Import the passages' vectors instead of computing them: a flat faiss index of "
        "--encoder's vectors in the order of the corpus, or the folder of its part_* files.",
    ),
]
FLAGS: Flags = {
    "--mode": Flag(
        "mode",
        help="Search methods that the index supports [default bm25, or hybrid with --encoder].",
    ),
    "--language": Flag(
        "language",
        read=lambda text: None if text == "none" else text,
        help="Language of the stemmer (Snowball's name), or none [default english].",
    ),
    "--encoder": "encoder",
    "--dense": "dense",
}


@app.command()
@takes_request("services.contracts.retrieval.indexes:IndexSpecification", FLAGS)
def create(
    name: Name,
    corpus: CorpusOption,
    draft: Draft,
    vectors: VectorsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build an index from a corpus. It replaces an index of the same name once it is complete.

    Running the command again resumes an interrupted build.
    """
    from services.contracts.retrieval.index_messages import BuildIndex, IndexBuilt
    from services.contracts.retrieval.indexes import IndexSpecification

    out = Output(as_json)
    encoder = draft.get("encoder")
    if vectors is not None and encoder is None:
        raise typer.BadParameter("--vectors needs --encoder, the model that made them")
    if encoder is not None:
        draft.default("mode", IndexMode.HYBRID.value)
        draft.body["encoder"] = _folder_or_hub_name(encoder)
    order = BuildIndex(
        index=name,
        corpus=corpus,
        corpus_name=corpus.name,
        vectors=vectors,
        specification=draft.request(IndexSpecification),
        build=uuid4().hex,
    )
    built = _run(out, order, IndexBuilt)
    if as_json:
        out.document(built)
        return
    metrics = built.metrics
    out.line(
        f"built {name} {built.version}: {metrics.documents:,} documents in "
        f"{duration(metrics.seconds)} ({number(metrics.documents_per_second)} per second), "
        f"{size(metrics.bytes_on_disk)}"
    )


@app.command("list")
def list_indexes(as_json: JsonOption = False) -> None:
    """List the indexes."""
    from services.contracts.retrieval.index_messages import Indexes, ListIndexes

    out = Output(as_json)
    indexes = _run(out, ListIndexes(), Indexes)
    if as_json:
        out.document(indexes)
        return
    out.table(INDEX_COLUMNS, map(index_row, indexes.indexes))


@app.command()
def show(name: Name, as_json: JsonOption = False) -> None:
    """Show one index."""
    from services.contracts.retrieval.index_messages import Indexes, ListIndexes

    out = Output(as_json)
    (index,) = _run(out, ListIndexes(index=name), Indexes).indexes
    if as_json:
        out.document(index)
    else:
        out.fields(index_fields(index))


@app.command()
def search(
    name: Name,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Keywords, or a question.")],
    topk: Annotated[int, typer.Option(min=1, max=MAX_TOPK, help="Number of passages.")] = 3,
    mode: Annotated[
        IndexMode | None,
        typer.Option(help="Search mode; default: every mode that the index supports."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Search an index; dense and hybrid search starts the encoder first."""
    from services.contracts.retrieval.index_messages import PassagesFound, SearchIndex

    out = Output(as_json)
    request = SearchIndex(index=name, query=query, topk=topk, mode=mode)
    found = _run(out, request, PassagesFound)
    if as_json:
        out.document(found)
        return
    for hit in found.hits:
        out.line(f"{hit.score:.3f}  {hit.document['id']}  {_one_line(hit.document)}")


def _one_line(document: JsonObject) -> str:
    return " ".join(str(document["contents"]).split())[:160]


@app.command()
def drop(name: Name, as_json: JsonOption = False) -> None:
    """Delete an index."""
    from services.contracts.retrieval.index_messages import DropIndex, IndexDropped

    out = Output(as_json)
    dropped = _run(out, DropIndex(index=name), IndexDropped)
    if as_json:
        out.document(dropped)
    else:
        out.line(f"deleted {name}")


@app.command()
def add(name: Name, corpus: CorpusOption, as_json: JsonOption = False) -> None:
    """Add the passages of a corpus to an index; existing ids are replaced."""
    from services.contracts.retrieval.index_messages import PassagesChanged, PutCorpus

    out = Output(as_json)
    order = PutCorpus(index=name, corpus=corpus, corpus_name=corpus.name)
    _print_changed(out, _run(out, order, PassagesChanged), "added or replaced")


@app.command()
def delete(
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of passages.")],
    as_json: JsonOption = False,
) -> None:
    """Delete passages of an index by their ids."""
    from services.contracts.retrieval.index_messages import DeletePassages, PassagesChanged

    out = Output(as_json)
    order = DeletePassages(index=name, ids=ids)
    _print_changed(out, _run(out, order, PassagesChanged), "deleted")


def _folder_or_hub_name(encoder: str) -> str:
    """Make a folder's path absolute: the build runs in another working directory."""
    from temper.submission.submission import user_path

    if (folder := user_path(encoder)).is_dir():
        return str(folder.resolve())
    return encoder


def _run(out: Output, order: IndexMessage, into: type[Answer]) -> Answer:
    from temper.indexing import IndexCommandFailed, IndexCommandInterrupted, run_order
    from temper.settings import load_settings

    try:
        with IndexProgress(out).shown() as progress:
            return run_order(order, into, load_settings(), progress)
    except IndexCommandInterrupted as error:
        out.note(error.message)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except IndexCommandFailed as error:
        for problem in error.problems:
            out.note(f"  {problem}", "red")
        raise


def _print_changed(out: Output, changed: PassagesChanged, verb: str) -> None:
    if out.as_json:
        out.document(changed)
    else:
        out.line(f"{verb} {changed.changed:,}; {changed.index} has {changed.documents:,} documents")


INDEX_COLUMNS = ("NAME", "MODE", "DOCUMENTS", "SIZE", "AGE", "PROBLEM")


def index_row(index: IndexSummary) -> tuple[str, ...]:
    """Return an index's table cells."""
    return (
        index.name,
        index.mode.value if index.mode else "",
        f"{index.documents:,}",
        size(index.bytes_on_disk),
        age(index.created_at) if index.created_at else "",
        index.problem or "",
    )


def index_fields(index: IndexSummary) -> dict[str, str | None]:
    """Return an index's fields for display."""
    return {
        "name": index.name,
        "version": index.version,
        "mode": index.mode.value if index.mode else None,
        "documents": f"{index.documents:,}",
        "size": size(index.bytes_on_disk),
        "language": index.language,
        "encoder": index.encoder,
        "dimension": str(index.dimension) if index.dimension else None,
        "dense": index.dense.value if index.dense else None,
        "created": age(index.created_at),
        "problem": index.problem,
    }


class IndexProgress:
    """Shows progress: a bar on a terminal, else one line per phase."""

    def __init__(self, out: Output) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._out = out
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=out.notes,
            transient=True,
            disable=not out.notes.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    @contextmanager
    def shown(self) -> Iterator[IndexProgress]:
        """Show progress while the block runs."""
        with self._bar:
            yield self

    def phase(self, name: str) -> None:
        """Start a phase."""
        words = name.replace("_", " ")
        self._bar.reset(self._task, description=words, total=None)
        if not self._out.notes.is_terminal:
            self._out.note(words)

    def progress(self, done: int, total: int) -> None:
        """Update the progress within the phase."""
        self._bar.update(self._task, completed=done, total=total)

    def message(self, text: str) -> None:
        """Print a message."""
        self._out.note(text)
