"""Filling the placeholders of a declaration in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from services.sandbox.execution import Command, Executable

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SOURCES = "{sources}"
_SIBLINGS = "{siblings}"


def fill(text: str, values: Mapping[str, str]) -> str | None:
    """``text`` with its placeholders filled; None when one of them has no value."""
    if not all(values.get(name) for name in _PLACEHOLDER.findall(text)):
        return None
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def fill_words(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words that have all their values, filled."""
    return tuple(word for text in words if (word := fill(text, values)) is not None)


def fill_command(
    command: Command, values: Mapping[str, str], programs: Mapping[str, str]
) -> Command:
    """A command with its words filled and its program chosen."""
    if not isinstance(command, Executable):
        return command
    return Executable(fill_words(with_program(command.arguments, programs), values))


def with_program(words: Sequence[str], programs: Mapping[str, str]) -> tuple[str, ...]:
    """The words with the first one replaced by the program that was chosen for it."""
    return (programs.get(words[0], words[0]), *words[1:])


def with_sources(words: Sequence[str], source: str, given: Iterable[str]) -> tuple[str, ...]:
    """The words with the lists of sources in the place of what stands for them."""
    kind = PurePosixPath(source).suffix
    alike = sorted(name for name in given if name.endswith(kind) and name != source)
    # A compiler would take some file names for options.
    sources = [source, *(name if name[0].isalnum() else f"./{name}" for name in alike)]
    siblings = [name for name in sources if "/" not in name.removeprefix("./")]
    lists = {_SOURCES: sources, _SIBLINGS: siblings}
    return tuple(word for text in words for word in lists.get(text, [text]))
