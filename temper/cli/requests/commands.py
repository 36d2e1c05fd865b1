"""The commands ``start`` and ``fields`` of a kind of job, imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from services.contracts.kinds import Kind

OWN_START = {"campaign": "temper.cli.campaigns.start:app"}
"""Kinds whose ``start`` has options of its own: a `typer.Typer` with this one command."""


def summary(kind: Kind) -> str:
    """The line of a kind that has no other command of its name in the list of commands."""
    return f"Start {_article(kind.noun)} by its request, and list the request's fields."


def of_kind(kind: Kind, command: Any) -> Any:
    """Return the command of a kind's name, with ``start`` and ``fields`` below it.

    ``command`` is the command that has this name anyway, a group or not, or None.
    """
    name = kind.name.replace("_", "-")
    own: dict[str, Any] = {
        "start": Deferred("start", f"Start {_article(kind.noun)}.", lambda: _start(kind)),
        "fields": Deferred("fields", "List the fields of the request.", lambda: _fields(kind)),
    }
    if command is None:
        return TyperGroup(name=name, commands=own, help=summary(kind), rich_markup_mode=None)
    if isinstance(command, TyperGroup):
        command.commands = {**own, **command.commands}
        return command
    return CommandBeside(command, own)


def imported(name: str, target: str | Callable[..., None]) -> Any:
    """Return the command of a function or a `typer.Typer`, given or named as ``module:name``."""
    command = resolve_name(target) if isinstance(target, str) else target
    # A callback makes this a group, in which the command has its name.
    group = typer.Typer(add_completion=False, callback=lambda: None, rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        group.add_typer(command, name=name)
    else:
        group.command(name)(command)
    return cast(TyperGroup, get_command(group)).commands[name]


class Deferred(TyperCommand):
    """A command that is listed by its summary, and made when it is called."""

    def __init__(self, name: str, summary: str, make: Callable[[], TyperCommand]) -> None:
        super().__init__(name, help=summary, rich_markup_mode=None)
        self.make = make

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """The context of the command itself."""
        return self.make().make_context(info_name, args, *more, **extra)


def with_deferred(name: str, summary: str, target: str) -> type[TyperGroup]:
    """Return the class of a group that has one more command, imported when it is called."""

    class Group(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands[name] = Deferred(name, summary, lambda: imported(name, target))

    return Group


class CommandBeside(TyperCommand):
    """A command that has others below it: those that its first argument names."""

    def __init__(self, command: TyperCommand, below: Mapping[str, TyperCommand]) -> None:
        super().__init__(command.name, help=command.help, rich_markup_mode=None)
        self.below = below
        self.command = command
        names = " and ".join(f"temper {command.name} {name}" for name in below)
        command.epilog = f"Jobs of this kind by their request: {names}."

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """The context of the command that the arguments call."""
        if args and args[0] in self.below:
            name = f"{info_name} {args[0]}"
            return self.below[args[0]].make_context(name, args[1:], *more, **extra)
        return self.command.make_context(info_name, args, *more, **extra)


def _start(kind: Kind) -> TyperCommand:
    if kind.name in OWN_START:
        return cast(TyperCommand, get_command(resolve_name(OWN_START[kind.name])))
    from temper.cli.requests.start import start_of

    return cast(TyperCommand, imported("start", start_of(kind)))


def _fields(kind: Kind) -> TyperCommand:
    from temper.cli.requests.fields import fields_of

    return cast(TyperCommand, imported("fields", fields_of(kind)))


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
