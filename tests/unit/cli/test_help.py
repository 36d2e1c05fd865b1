"""The help of every command."""

from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from temper.cli.main import app


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
