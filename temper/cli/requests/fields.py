"""``temper KIND fields``: the fields of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from temper.cli.output import JsonOption, Output

if TYPE_CHECKING:
    from services.contracts.kinds import Kind
    from temper.submission.fields import Field

COLUMNS = ("FIELD", "TYPE", "DEFAULT", "BOUNDS", "MEANING")

PathArgument = Annotated[
    str | None,
    typer.Argument(metavar="[PATH]", help="List the fields of this one, such as budget."),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="List the fields of fields, too, at any depth.")
]


class FieldRow(BaseModel):
    """A field in JSON output; ``when`` names the variants that have it."""

    path: str
    type: str
    default: str | None
    bounds: str
    description: str
    required: bool
    when: str


class FieldTable(BaseModel):
    """The JSON document of the command."""

    kind: str
    data: list[FieldRow]


def fields_of(kind: Kind) -> Callable[..., None]:
    """Return the command that lists the fields of a kind's request."""

    def fields(
        path: PathArgument = None, everything: AllOption = False, as_json: JsonOption = False
    ) -> None:
        from dataclasses import asdict

        out = Output(as_json)
        found = _at_the_top(kind) if path is None and not everything else _below(kind, path)
        depth = 1 if path is None else path.count(".") + 2
        shown = [each for each in found if everything or each.path.count(".") < depth]
        if as_json:
            out.document(
                FieldTable(kind=kind.name, data=[FieldRow(**asdict(each)) for each in shown])
            )
            return
        out.table(COLUMNS, map(_row, shown))
        if not everything and any("object" in each.type for each in shown):
            out.note("for the fields of an object name it, or use --all", "dim")

    fields.__doc__ = FIELDS_SUMMARY
    return fields


FIELDS_SUMMARY = "List the fields of the request: path, type, default, bounds and meaning."


def _at_the_top(kind: Kind) -> list[Field]:
    from temper.submission.outline import top_fields

    return [each for each in top_fields(kind.request) if each.path in kind.given_fields]


def _below(kind: Kind, path: str | None) -> list[Field]:
    from temper.submission.fields import fields_below
    from temper.submission.fields import fields_of as fields_of_model

    given = kind.given_fields
    model: type[BaseModel] = kind.request
    if path is None:
        return [each for each in fields_of_model(model) if each.path.split(".")[0] in given]
    top = path.split(".")[0]
    fields = fields_below(model, top) if top in given else ()
    found = [each for each in fields if each.path.startswith(f"{path}.")]
    if not found:
        own = [each for each in fields if each.path == path]
        if not own:
            raise typer.BadParameter(f"{kind.name} has no field {path!r}")
        return own
    return found


def _row(field: Field) -> tuple[str, ...]:
    meaning = f"{field.description} ({field.when})" if field.when else field.description
    default = "required" if field.required else field.default or ""
    return field.path, field.type, default, field.bounds, meaning.strip()
