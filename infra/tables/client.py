"""The methods of the Python client, for docs/client.md."""

import inspect
from collections.abc import Iterator
from typing import Any

from temper.client import Temper

HEAD = ("| method | |", "|---|---|")


def reference() -> str:
    """Every public method with its parameters, by the attribute of the client that has it."""
    with Temper() as client:
        parts = {"client": client, **{f"client.{name}": part for name, part in _parts(client)}}
        lines: list[str] = []
        for name, part in parts.items():
            rows = [f"| `{name}.{each}` | {text} |" for each, text in _methods(part)]
            lines += [f"### {name}", "", *HEAD, *rows, ""]
    return "\n".join(lines).rstrip()


def _parts(client: Temper) -> Iterator[tuple[str, Any]]:
    return ((name, part) for name, part in vars(client).items() if not name.startswith("_"))


def _methods(part: Any) -> Iterator[tuple[str, str]]:
    """Calls without their types, and the first paragraph of what they do."""
    for name, method in inspect.getmembers(part, inspect.ismethod):
        if name.startswith("_"):
            continue
        shown = [_parameter(each) for each in inspect.signature(method).parameters.values()]
        text = " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())
        yield f"{name}({', '.join(shown)})", text.replace("``", "`").replace("|", "\\|")


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    is_optional = parameter.default is not inspect.Parameter.empty
    return f"{stars}{parameter.name}{'=' if is_optional else ''}"
