"""The commands of `temper`, for docs/command-line.md."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from services.contracts.kinds import KINDS
from temper.cli.main import app
from temper.cli.requests.commands import OWN_START, CommandBeside, Deferred

_OF_KINDS = {"start", "fields"}


def reference() -> str:
    """Every command with its arguments and options, in the order of the help."""
    lines = ["## start and fields of every kind", ""]
    lines += ["`KIND` is " + ", ".join(f"`{name}`" for name in KINDS) + ".", ""]
    kind = get_command(app).commands["evaluation"]  # type: ignore[attr-defined]  # a group
    for name in sorted(_OF_KINDS, reverse=True):
        lines += _section(("temper", "KIND", name), kind.commands[name].make())
    for words, command in _commands(("temper",), get_command(app)):
        lines += _section(words, command)
    return "\n".join(lines).rstrip()


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the commands below one; those that every kind has are left out."""
    for name, below in getattr(command, "commands", {}).items():
        path = (*words, name)
        is_own = name == "start" and words[-1] in OWN_START
        if isinstance(below, Deferred) and name in _OF_KINDS and not is_own:
            continue
        if len(words) == 1 and name.replace("-", "_") in KINDS and _is_of_kind_only(below):
            continue
        yield path, below.make() if isinstance(below, Deferred) else below
        yield from _commands(path, below)


def _is_of_kind_only(command: Any) -> bool:
    return set(getattr(command, "commands", {})) == _OF_KINDS


def _section(words: tuple[str, ...], command: Any) -> list[str]:
    real = command.command if isinstance(command, CommandBeside) else command
    title = f"{'##' if len(words) == 2 else '###'} {' '.join(words)}"
    text = [" ".join(part.split()) for part in (real.help or "").split("\n\n")]
    given = [each for each in real.params if each.name != "help"]
    rows = [f"| `{_escaped(_names(each))}` | {_escaped(_meaning(each))} |" for each in given]
    table = ["| option | meaning |", "|---|---|", *rows, ""] if rows else []
    body = [line for part in text if part for line in (_plain(part), "")]
    return [title, "", *body, *table]


def _names(parameter: Any) -> str:
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return metavar or parameter.name.upper()
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {metavar or 'VALUE'}"


def _meaning(parameter: Any) -> str:
    said = " ".join((getattr(parameter, "help", None) or "").split())
    default = parameter.default
    is_shown = isinstance(default, str | int | float) and not isinstance(default, bool)
    if is_shown and getattr(parameter, "show_default", False):
        said = f"{said} [default {getattr(default, 'value', default)}]"
    return _plain(f"{said} [required]" if parameter.required else said).strip()


def _plain(text: str) -> str:
    """Text without what Markdown would read as markup."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("``", "`")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
