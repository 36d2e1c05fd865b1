"""A command group that imports a command when it is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class LazyCommand(NamedTuple):
    """A command before it is imported."""

    target: str
    """``module:name`` of a function, or of a `typer.Typer` with commands of its own."""
    summary: str
    """Its line in the list of commands: the first paragraph of its help."""


class Commands(Mapping[str, Any]):
    """The commands by name; looking one up imports it, listing the names imports none."""

    def __init__(self, table: Mapping[str, LazyCommand]) -> None:
        self._table = table
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            self._imported[name] = _import(name, self._table[name].target)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def summaries(self) -> dict[str, Any]:
        """Commands that can be listed and do nothing."""
        return {name: _Listed(name, help=each.summary) for name, each in self._table.items()}


class _Listed(TyperCommand):
    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002  (nothing is cut off)
        return self.help or ""


def _import(name: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    # A callback makes this a group, in which the command has its name.
    group = typer.Typer(add_completion=False, callback=lambda: None, rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        group.add_typer(command, name=name)
    else:
        group.command(name)(command)
    return cast(TyperGroup, get_command(group)).commands[name]


def lazy_group(table: Mapping[str, LazyCommand]) -> type[TyperGroup]:
    """Return the class of a group with these commands."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = cast(Any, Commands(table))

        def format_help(self, ctx: Any, formatter: Any) -> None:
            commands, self.commands = self.commands, Commands(table).summaries()
            try:
                super().format_help(ctx, formatter)
            finally:
                self.commands = commands

    return LazyGroup
