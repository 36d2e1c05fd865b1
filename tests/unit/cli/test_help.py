"""The help of every command."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from temper.cli.commands import COMMANDS
from temper.cli.main import app
from tests.support.processes import REPOSITORY

TYPER = 200
"""Modules: those of Typer, and a few of ours."""
ONE_COMMAND = 350
CONNECTED = 520
HEAVY = {"httpx", "asyncio", "numpy", "pyarrow", "huggingface_hub", "fsspec", "pydantic_settings"}
KINDS = {f"services.contracts.{name}" for name in ("fine_tuning", "evaluations", "rollouts")}
"""Types of which a command needs one kind's at most."""


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
import io, json, sys
from contextlib import redirect_stdout
from temper.cli.main import main

def show(*words):
    with redirect_stdout(io.StringIO()):
        assert main([*words, "--help"]) == 0, words
    return list(sys.modules)

own = show()
jobs = show("ps")
from temper.cli.gateway import connect
connect().close()
connected = list(sys.modules)
for words in json.loads(sys.argv[1]):
    every = show(*words)
print(json.dumps([own, jobs, connected, every]))
"""


def test_a_command_imports_what_it_needs_only_when_it_runs(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, json.dumps(sorted(commands()))],
        env={"PYTHONPATH": str(REPOSITORY), "TEMPER_HOME": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    own, jobs, connected, every = map(set, json.loads(run.stdout))

    assert len(own) <= TYPER
    assert "pydantic" not in own
    assert jobs.isdisjoint(HEAVY)
    assert len(jobs) <= ONE_COMMAND
    assert connected.isdisjoint(HEAVY - {"httpx"} | KINDS)
    assert len(connected) <= CONNECTED
    assert (every - connected).isdisjoint(HEAVY)
