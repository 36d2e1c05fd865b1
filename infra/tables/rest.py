"""The gateway's routes, for docs/rest.md."""

import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from services.api.app import create_api
from services.api.settings import ApiSettings

HEAD = ("| route | purpose | request | response |", "|---|---|---|---|")


class Route(NamedTuple):
    """A method on a path; ``takes`` and ``gives`` name the schemas of its bodies."""

    subject: str
    path: str
    method: str
    summary: str
    takes: str
    gives: str


def reference() -> str:
    """A table of routes for each subject, both in the order of the description."""
    lines: list[str] = []
    for subject, routes in groupby(sorted(_routes(), key=lambda each: each.subject), _subject):
        lines += [f"## {subject}", "", *HEAD]
        lines += [_row(each) for each in routes]
        lines.append("")
    return "\n".join(lines).rstrip()


def _subject(route: Route) -> str:
    return route.subject


def _row(route: Route) -> str:
    takes, gives = (f"`{name}`" if name else "" for name in (route.takes, route.gives))
    return f"| `{route.method} {route.path}` | {route.summary} | {takes} | {gives} |"


def _routes() -> list[Route]:
    with tempfile.TemporaryDirectory() as home:
        described = create_api(ApiSettings(home=Path(home))).app.openapi()
    return [
        Route(
            subject=operation["tags"][0].replace("-", " "),
            path=path,
            method=method.upper(),
            summary=operation.get("summary", ""),
            takes=_schema(operation.get("requestBody", {})),
            gives=next((_schema(each) for each in _successes(operation)), ""),
        )
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]


def _successes(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for status, each in operation["responses"].items() if status.startswith("2")]


def _schema(body: dict[str, Any]) -> str:
    """The name of the schema of a JSON body; empty for other bodies and for schemas without one."""
    schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).rpartition("/")[2]
