"""The help of every command."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from temper.cli.commands import COMMANDS
from temper.cli.main import app
from tests.support.processes import REPOSITORY

TYPER = 200
"""Modules: those of Typer, and a few of ours."""
ALL_COMMANDS = 460
HEAVY = {"httpx", "asyncio", "numpy", "pyarrow", "huggingface_hub", "fsspec", "pydantic_settings"}


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), get_command(app))]
    while waiting:
        words, command = waiting.pop()
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            waiting.append(((*words, name), inner))


@pytest.mark.parametrize("words", sorted(commands()), ids=" ".join)
def test_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], prog_name="temper")

    assert shown.exit_code == 0, shown.output
    assert "Usage: temper" in shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_paragraph_of_their_help(name: str) -> None:
    command = get_command(app).commands[name]  # type: ignore[attr-defined]

    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[name].summary


def test_a_command_imports_what_it_needs_only_when_it_runs() -> None:
    words = sorted(commands())
    program = (
        "import io, json, sys\n"
        "from contextlib import redirect_stdout\n"
        "from temper.cli.main import main\n"
        "loaded = []\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    with redirect_stdout(io.StringIO()):\n"
        "        assert main([*words, '--help']) == 0, words\n"
        "    loaded.append(list(sys.modules))\n"
        "print(json.dumps([loaded[0], loaded[-1]]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", program, json.dumps(words)],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    own_help, every_help = json.loads(run.stdout)

    assert words[0] == ()
    assert len(own_help) <= TYPER
    assert not any(name.startswith(("pydantic", "services.contracts.jobs")) for name in own_help)
    assert HEAVY.isdisjoint(every_help)
    assert len(every_help) <= ALL_COMMANDS
