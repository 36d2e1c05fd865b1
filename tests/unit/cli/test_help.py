"""The help of every command."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from services.contracts.kinds import KINDS
from temper.cli.commands import COMMANDS
from temper.cli.main import app
from tests.support.processes import REPOSITORY

TYPER = 200
"""Modules: those of Typer, and a few of ours."""
HELP = 370
LISTED = 410
"""Of the fields of a request: those of rich, too."""
DRY_RUN = 385
CONNECTED = 400
HEAVY = {"httpx", "asyncio", "numpy", "pyarrow", "huggingface_hub", "fsspec", "pydantic_settings"}
REQUESTS = {kind.request_type.split(":")[0] for kind in KINDS.values()}
"""Types of which a command needs one kind's at most, and the client none until a call."""
STARTS: dict[str, tuple[str, ...]] = {
    "evaluation": ("model=m", "file=file-1", "benchmark=gsm8k"),
    "rollout": ("model=m", "file=file-1"),
    "indexing": ("index=i", "file=file-1"),
    "batch": (
        "input_file_id=file-1",
        "endpoint=/v1/chat/completions",
        "completion_window=24h",
    ),
    "check": ("training_file=file-1",),
    "merge": ("model=m",),
    "export": ("model=m", "destination=/exports/m"),
    "download": ("model=m",),
    "campaign": (
        "base_model=m",
        "file=file-1",
        "scenario=s",
        'llm={"base_url":"http://llm/v1","model":"m"}',
    ),
    "serve": ("model=m",),
}
"""The fields of a job of each kind whose dry run asks no gateway."""


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), get_command(app))]
    while waiting:
        words, command = waiting.pop()
        yield words
        below = getattr(command, "commands", None) or getattr(command, "below", {})
        for name, inner in below.items():
            waiting.append(((*words, name), inner))


@pytest.mark.parametrize("words", sorted(commands()), ids=" ".join)
def test_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], prog_name="temper")

    assert shown.exit_code == 0, shown.output
    assert "Usage: temper" in shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_paragraph_of_their_help(name: str) -> None:
    command = get_command(app).commands[name]  # type: ignore[attr-defined]  # the application is a group

    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[name].summary


PROGRAM = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from pkgutil import resolve_name
from temper.cli.gateway import connect
from temper.cli.main import main

def imported(do):
    # A fork of a process that has what every command imports: as a new process, and sooner.
    reader, writer = os.pipe()
    if not os.fork():
        shown = io.StringIO()
        with redirect_stdout(shown), redirect_stderr(shown):
            code = do()
        with open(writer, "w") as file:
            json.dump([code, shown.getvalue() if code else "", list(sys.modules)], file)
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        code, shown, modules = json.load(file)
    os.wait()
    assert not code, shown
    return modules

asked = json.loads(sys.argv[1])
own = imported(lambda: main(["--help"]))
import pydantic, typer._adapters
pydantic.BaseModel, pydantic.TypeAdapter
found = {
    "own": own,
    "connected": imported(lambda: connect().close()),
    "commands": [imported(lambda: max(map(main, each))) for each in asked["commands"]],
    "requests": [imported(lambda: resolve_name(name) and 0) for name in asked["requests"]],
}
print(json.dumps(found))
"""


def imported(
    home: Path, commands: Sequence[Sequence[Sequence[str]]], requests: Sequence[str] = ()
) -> dict[str, Any]:
    """The modules that groups of commands, and types, import: each in a process of its own."""
    run = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            PROGRAM,
            json.dumps({"commands": commands, "requests": requests}),
        ],
        env={"PYTHONPATH": str(REPOSITORY), "TEMPER_HOME": str(home)},
        cwd=home,
        capture_output=True,
        timeout=240,
        check=False,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_the_names_of_modules_that_no_command_imports_exist() -> None:
    assert [name for name in (HEAVY | REQUESTS) if not find_spec(name)] == []


def test_help_and_connections_import_little(tmp_path: Path) -> None:
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for words in filter(None, commands()):
        is_of_kind = words[1:] in {("start",), ("fields",)}  # made of a request's type
        groups.setdefault(words if is_of_kind else words[:1], []).append([*words, "--help"])
    found = imported(tmp_path, list(groups.values()))

    assert len(found["own"]) <= TYPER
    assert "pydantic" not in found["own"]
    assert set(found["connected"]).isdisjoint(HEAVY - {"httpx"} | REQUESTS | {"rich"})
    assert len(found["connected"]) <= CONNECTED
    for words, modules in zip(groups, found["commands"], strict=True):
        assert HEAVY & set(modules) == set(), words
        assert "rich" not in modules, words
        assert len(modules) <= HELP, words


def test_a_kind_is_listed_and_started_with_its_own_types(tmp_path: Path) -> None:
    fields = [(name, "fields") for name in KINDS]
    starts = [
        (name, "start", "--dry-run", *(word for each in given for word in ("--set", each)))
        for name, given in STARTS.items()
    ]
    types = {name: kind.request_type for name, kind in KINDS.items()}
    found = imported(tmp_path, [[each] for each in (*fields, *starts)], list(types.values()))
    own = dict(zip(types, map(set, found["requests"]), strict=True))

    for words, modules in zip([*fields, *starts], map(set, found["commands"]), strict=True):
        assert modules & HEAVY == set(), words
        assert modules & REQUESTS == own[words[0]] & REQUESTS, words
        assert len(modules) <= (LISTED if words in fields else DRY_RUN), words
