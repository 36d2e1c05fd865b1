"""x"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from services.sandbox.execution import Command, Executable

Words = tuple[str, ...]
Facts = Mapping[str, str]


@dataclass(frozen=True)
class Preparation:
    """Work done once, ahead of all programs, that a compiler would otherwise do for each.

    ``command`` is run in a folder that holds ``files`` alone, and leaves ``products`` there.
    ``{work}`` in ``environment`` stands for that folder.
    """

    command: Words
    products: Words
    files: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Language:
    """One language; ``name`` is its name on the wire.

    Files: the code is written to ``source``, after ``rewrite`` if there is one; ``support``
    files come with every program; ``artefacts`` are the patterns of what compilation leaves.

    Commands: the first word names the program, and ``a|b`` takes the first that is installed.
    ``probe`` prints the version, in a folder that holds ``probe_files``. The compiler gets at
    least ``compiler_mb`` of memory.

    Toolchain: the programs of the commands, ``programs``, and a path for each pattern of
    ``present``. ``debian`` are the packages that bring it, ``npm`` packages of Node.js that do
    as well, and ``elsewhere`` says where it comes from when Debian has none. ``visible`` are
    patterns of what it reads outside of /usr.
    """

    name: str
    source: str
    run: Command
    probe: Command
    compile: Words = ()
    artefacts: Words = ()
    rewrite: Callable[[bytes], bytes] | None = None
    facts: Callable[[bytes], Facts] | None = None
    support: Mapping[str, str] = field(default_factory=dict)
    probe_files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    programs: Words = ()
    present: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    debian: Words = ()
    npm: Words = ()
    elsewhere: str = ""
    visible: Words = ()
    compiler_mb: int = 1024
    preparation: Preparation | None = None


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
