"""``temper models``: the model registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from services.contracts.validation import first_fault
from temper.cli.gateway import connect
from temper.cli.jobs.jobs import print_job
from temper.cli.output import JsonOption, Output
from temper.cli.requests.flags import takes_request
from temper.cli.units import age, size
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from services.contracts.models.registered import Lineage, Model

app = typer.Typer(help="The model registry.")

ModelName = Annotated[str, typer.Argument(metavar="ID")]
Weights = Annotated[
    bool, typer.Option("--weights", help="Also delete the weights of a model that a job made.")
]
Most = Annotated[int, typer.Option("-n", min=1, max=10_000, help="Maximum number of models.")]


@app.command("list")
def list_models(most: Most = 20, as_json: JsonOption = False) -> None:
    """List models."""
    out = Output(as_json)
    with connect() as client:
        page = client.models.page(most=most)
    if as_json:
        out.document(page)
        return
    rows = [
        (model.id, model.kind.value, model.base or "", _source(model), age(model.created))
        for model in page.data
    ]
    out.table(("ID", "KIND", "BASE", "SOURCE", "AGE"), rows)


@app.command()
def folders(as_json: JsonOption = False) -> None:
    """List folders below the model root, with their sizes and why one cannot be registered."""
    out = Output(as_json)
    with connect() as client:
        page = client.models.folders()
    if as_json:
        out.document(page)
        return
    rows = [
        (each.id, each.kind or "", size(each.bytes), ", ".join(each.models), each.problem or "")
        for each in page.data
    ]
    out.table(("FOLDER", "KIND", "SIZE", "REGISTERED AS", "PROBLEM"), rows)
    if page.has_more:
        out.note("more folders exist than are listed")


@app.command()
def show(model_id: ModelName, as_json: JsonOption = False) -> None:
    """Show a model and its lineage."""
    out = Output(as_json)
    with connect() as client:
        _print(out, client.models.get(model_id))


@app.command()
def register(
    model_id: ModelName,
    folder: Annotated[
        str | None, typer.Option(help="Folder below the operator's model root.")
    ] = None,
    hub: Annotated[str | None, typer.Option(help="Hub repository: owner/name.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of the repository.")] = None,
    base: Annotated[
        str | None, typer.Option(help="The registered model that an adapter folder belongs to.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Register a model: a folder below the model root, or a hub repository."""
    from services.contracts.models.registered import RegisterModel

    out = Output(as_json)
    try:
        request = RegisterModel(
            id=model_id, folder=folder, hub_id=hub, revision=revision, base=base
        )
    except ValidationError as error:
        raise typer.BadParameter(first_fault(error).sentence()) from error
    with connect() as client:
        _print(out, client.models.register(request))


@app.command()
@takes_request("services.contracts.models.jobs:CreateMerge", {"--suffix": "suffix"})
def merge(model_id: ModelName, draft: Draft, as_json: JsonOption = False) -> None:
    """Merge an adapter into its base, or convert a GGUF file; a job registers the result."""
    _start("merge", model_id, draft, as_json)


@app.command()
@takes_request("services.contracts.models.jobs:CreateExport", {"--to": "destination"})
def export(model_id: ModelName, draft: Draft, as_json: JsonOption = False) -> None:
    """Copy a model's files to a folder, a store or a hub that the operator allows."""
    _start("export", model_id, draft, as_json)


@app.command()
@takes_request("services.contracts.models.jobs:CreateDownload", {})
def download(model_id: ModelName, draft: Draft, as_json: JsonOption = False) -> None:
    """Download a hub model before a job needs it; a job counts its bytes."""
    _start("download", model_id, draft, as_json)


def _start(kind: str, model: str, draft: Draft, as_json: bool) -> None:
    from temper.submission.job_file import submission_of

    out = Output(as_json)
    draft.body["model"] = model
    request = submission_of(kind, draft).request
    with connect() as client:
        job = client.of_kind(kind).create(request)
    print_job(out, job)
    out.note(f"follow with: temper logs -f {job.id}", "dim")


@app.command()
def delete(model_id: ModelName, weights: Weights = False, as_json: JsonOption = False) -> None:
    """Unregister a model. A folder that was registered stays; what a job trained is deleted."""
    out = Output(as_json)
    with connect() as client:
        trained = client.models.get(model_id).lineage is not None
        if trained and not weights:
            raise typer.BadParameter(
                f"{model_id} was made by a job: its weights are deleted with it and cannot be "
                "restored; --weights says that this is meant"
            )
        deleted = client.models.delete(model_id)
    if as_json:
        out.document(deleted)
    else:
        out.line(f"deleted {deleted.id}{' and its weights' if trained else ''}")


def _source(model: Model) -> str:
    if model.lineage is not None:
        return model.lineage.job_id
    return model.folder or model.hub_id or ""


def _data(lineage: Lineage) -> str | None:
    """Return the training files; lineages from older versions name only the first."""
    named = [file.file for param, file in lineage.files.items() if param.startswith("training")]
    return ", ".join(named) or lineage.training_file


def _print(out: Output, model: Model) -> None:
    if out.as_json:
        out.document(model)
        return
    lineage = model.lineage
    out.fields(
        {
            "id": model.id,
            "kind": model.kind.value,
            "base": model.base,
            "folder": model.folder,
            "hub": model.hub_id,
            "revision": model.revision,
            "created": age(model.created),
            "merged by" if lineage and lineage.merged else "trained by": lineage.job_id
            if lineage
            else None,
            "from": lineage.parent if lineage else None,
            "data": _data(lineage) if lineage else None,
            "data sha256": lineage.training_file_sha256 if lineage else None,
            "seed": str(lineage.seed) if lineage and lineage.seed is not None else None,
        }
    )
