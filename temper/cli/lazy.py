"""The commands of ``temper``, each imported when it is asked for."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from typer.core import TyperCommand, TyperGroup

from services.contracts.kinds import KINDS
from temper.cli.requests.commands import imported, of_kind, summary


class LazyCommand(NamedTuple):
    """A command before it is imported."""

    target: str
    """``module:name`` of a function, or of a `typer.Typer` with commands of its own."""
    summary: str
    """Its line in the list of commands: the first paragraph of its help."""


class Commands(Mapping[str, Any]):
    """The commands of a table, and those of every kind of job, by name.

    Looking one up imports it; listing the names imports none.
    """

    def __init__(self, table: Mapping[str, LazyCommand]) -> None:
        self._table = table
        self._kinds = {name.replace("_", "-"): kind for name, kind in KINDS.items()}
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        name = name.replace("_", "-")
        if name not in self._imported:
            own = self._table[name].target if name in self._table else None
            command = None if own is None else imported(name, own)
            kind = self._kinds.get(name)
            self._imported[name] = command if kind is None else of_kind(kind, command)
            if self._imported[name] is None:
                raise KeyError(name)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._table, **self._kinds})

    def __len__(self) -> int:
        return len({**self._table, **self._kinds})

    def summaries(self) -> dict[str, Any]:
        """Commands that can be listed and do nothing."""
        texts = {name: summary(kind) for name, kind in self._kinds.items()}
        texts |= {name: each.summary for name, each in self._table.items()}
        return {name: _Listed(name, help=texts[name]) for name in self}


class _Listed(TyperCommand):
    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002  (nothing is cut off)
        return self.help or ""


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
