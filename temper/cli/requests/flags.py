"""Options of commands that set fields of a request, with the help that the fields have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer

from temper.submission.assignments import (
    InvalidOption,
    json_or_text,
    parse_assignment,
    parse_path,
)
from temper.submission.draft import Draft, set_option
from temper.submission.fields import Field, is_text_at
from temper.submission.outline import fields_at

if TYPE_CHECKING:
    from pydantic import BaseModel

Read = Callable[[str], Any]

WHETHER = "Whether to "
SET = "set_fields"
JOB = "job_file"
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set a field of the request to JSON or text, such as name=first; repeatable.",
    ),
]
JobOption = Annotated[
    Path | None,
    typer.Option(
        "-f",
        "--job",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A job file, YAML or JSON, with fields of the request; options are above it.",
    ),
]


@dataclass(frozen=True)
class Flag:
    """An option that sets the field at ``path``.

    ``read`` makes its value, and raises `ValueError`; None: by the type of the field. ``help``
    replaces the field's description. A ``repeated`` option gives a list to ``combine``.
    """

    path: str
    help: str | None = None
    read: Read | None = None
    metavar: str | None = None
    combine: Callable[[list[Any]], Any] | None = None


Flags = Mapping[str, Flag | str]
"""Flags, or the paths of their fields, by the names of the option, separated by spaces."""


def takes_request(
    type_name: str, flags: Flags, read_file: Callable[[Path], Draft] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that fill its parameter ``draft``, a `Draft`.

    These are ``flags``, ``--set`` and, with ``read_file``, ``-f`` with a job file. ``type_name``
    is that of the request, as ``module:class``.
    """
    model: type[BaseModel] = resolve_name(type_name)
    table = {names: Flag(to) if isinstance(to, str) else to for names, to in flags.items()}
    fields = fields_at(model, (flag.path for flag in table.values()))

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            file, texts = values.pop(JOB, None), values.pop(SET, None)
            given = {names: values.pop(_identifier(names)) for names in table}
            try:
                draft = Draft() if file is None or read_file is None else read_file(file)
                draft.offered = {
                    parse_path(flag.path): _longest(names) for names, flag in table.items()
                }
                _apply(draft, fields, table, given)
                for text in texts or []:
                    path, value = parse_assignment(text)
                    # The schema of a field is built only where it decides how the text is read.
                    decides = json_or_text(value) != value
                    is_text = decides and is_text_at(model, path)
                    draft.set(path, _read(value, is_text=is_text), set_option(path))
                function(draft=draft, **values)
            except InvalidOption as error:
                raise typer.BadParameter(error.message) from error

        parameters = inspect.signature(function, eval_str=True).parameters
        own = [each for name, each in parameters.items() if name != "draft"]
        added = list(_parameters(fields, table, has_file=read_file is not None))
        by_keyword = (each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *added))
        command.__signature__ = Signature(list(by_keyword))  # type: ignore[attr-defined]  # read by Typer
        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        command.__annotations__ = {}
        return command

    return decorate


def _apply(
    draft: Draft, fields: Mapping[str, Field], table: Mapping[str, Flag], given: Mapping[str, Any]
) -> None:
    for names, flag in table.items():
        value, option = given[names], _longest(names)
        if value is None or value == []:
            continue
        read = flag.read or partial(_read, is_text=fields[flag.path].is_text)
        try:
            if flag.combine is not None:
                value = flag.combine([read(text) for text in value])
            elif not isinstance(value, bool):
                value = read(value)
        except ValueError as error:
            raise InvalidOption(f"{option}: {error}") from error
        parts = parse_path(flag.path)
        if (other := draft.options.get(parts)) is not None:
            raise InvalidOption(f"{other} and {option} set the same field: give one of them")
        draft.set(parts, value, option)


def _read(text: str, *, is_text: bool) -> Any:
    """A value as JSON; where only strings fit, a text that is neither null nor in quotes is one."""
    is_json = not is_text or text == "null" or text.startswith('"')
    return json_or_text(text) if is_json else text


def _parameters(
    fields: Mapping[str, Field], table: Mapping[str, Flag], *, has_file: bool
) -> Iterator[Parameter]:
    if has_file:
        yield Parameter(JOB, Parameter.KEYWORD_ONLY, default=None, annotation=JobOption)
    for names, flag in table.items():
        yield _parameter(names, flag, fields[flag.path], has_file=has_file)
    yield Parameter(SET, Parameter.KEYWORD_ONLY, default=None, annotation=SetOption)


def _parameter(names: str, flag: Flag, field: Field, *, has_file: bool) -> Parameter:
    is_switch = flag.read is None and field.type.startswith("boolean")
    value: Any = list[str] if flag.combine is not None else bool if is_switch else str
    metavar = flag.metavar or (None if is_switch else _metavar(field))
    needed = field.required and not has_file
    text = flag.help or help_of(field)
    option = typer.Option(
        *names.split(), metavar=metavar, help=f"{text} [required]" if needed else text
    )
    annotation = Annotated[value | None, option]
    return Parameter(
        _identifier(names), Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def help_of(field: Field) -> str:
    """The description of a field with its bounds and its default, as a help text.

    It is that of an option: a switch says what it does, and what null means is its default.
    """
    said = [] if field.is_text else [field.bounds]
    said += [] if field.default in {None, "false", '""'} else [f"default {field.default}"]
    more = ", ".join(filter(None, said))
    text = field.description.replace("null: ", "default: ").replace("Null: ", "Default: ")
    if text.startswith(WHETHER):
        text = text[len(WHETHER)].upper() + text[len(WHETHER) + 1 :]
    return f"{text} [{more}]" if more else text


def _metavar(field: Field) -> str | None:
    types = field.type.removesuffix(" or null")
    if field.is_text and "|" in types:
        return f"<{types}>"
    return {"integer": "<int>", "number": "<float>"}.get(types)


def _longest(names: str) -> str:
    return max(names.split(), key=len)


def _identifier(names: str) -> str:
    return "field_" + names.split(maxsplit=1)[0].lstrip("-").split("/")[0].replace("-", "_")
