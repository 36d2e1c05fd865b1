"""The help of every option says what the option sets, without its name or its neighbors."""

from collections.abc import Iterator

import pytest
from typer.main import get_command

from temper.cli.main import app
from temper.cli.requests.commands import Deferred

LEANING = ("Its ", "The same", "Inclusive", "None", "About ", "From ", "What ", "Where ", "One ")
"""Beginnings of a help that lean on the name of the option, or on the option above it."""


def option_helps() -> Iterator[tuple[str, str, str]]:
    """Each command, its options and what their help says."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), get_command(app))]
    while waiting:
        words, command = waiting.pop()
        below = getattr(command, "commands", None) or getattr(command, "below", {})
        waiting += [((*words, name), inner) for name, inner in below.items()]
        made = command.make() if isinstance(command, Deferred) else command
        for option in getattr(made, "command", made).params:  # type: ignore[attr-defined]
            if option.param_type_name == "option" and option.name != "help":
                said = " ".join((option.help or "").split())
                yield " ".join(words), max(option.opts, key=len), said


@pytest.fixture(scope="module")
def helps() -> list[tuple[str, str, str]]:
    return list(option_helps())


def test_the_help_of_an_option_stands_alone(helps: list[tuple[str, str, str]]) -> None:
    leaning = [
        (command, option, said)
        for command, option, said in helps
        if " " not in said or said.startswith(LEANING) or "null:" in said.lower() or "none:" in said
    ]

    assert len(helps) > 300
    assert leaning == []


@pytest.mark.parametrize(
    ("command", "required"),
    [("batch", {"--prompts", "--template", "--output"}), ("models export", {"--to"})],
)
def test_an_option_that_must_be_given_is_marked(
    helps: list[tuple[str, str, str]], command: str, required: set[str]
) -> None:
    marked = {
        option for words, option, said in helps if words == command and said.endswith("[required]")
    }

    assert marked == required
