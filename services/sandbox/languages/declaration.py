"""The declaration of a language: its files, commands and toolchain.

In commands, environment values and file names, ``{heap}`` stands for the megabytes of a managed
heap, ``{prepared}`` for the folder of precompiled inputs, names in ``present`` and ``optional`` for
the paths found there, and other names for what ``facts`` parses from the code. A word is dropped if
its placeholder has no value. The word ``{sources}`` becomes the code's file and the given files of
the same type, ``{siblings}`` those of them in the same folder.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from services.sandbox.execution import Command, Executable

Words = tuple[str, ...]
Facts = Mapping[str, str]


@dataclass(frozen=True)
class PreparationSpec:
    """Work done once that a compiler would otherwise repeat for each program.

    ``command`` runs in a folder with ``files`` and creates ``products`` there; ``{work}`` in
    ``environment`` stands for that folder.
    """

    command: Words
    products: Words
    files: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LanguageSpec:
    """A language; ``name`` is its name on the wire.

    Files: the code is written to ``source``, after ``rewrite`` if given; ``support`` files
    accompany every program; ``artifacts`` are patterns for the compiler's output.

    Commands: the first word names the program, and ``a|b`` selects the first that is installed.
    ``probe`` prints the version, in a folder with ``probe_files``. The compiler gets at least
    ``compiler_mb`` of memory.

    Toolchain: the programs of the commands, ``programs``, and a path for each pattern in
    ``present``. ``debian`` packages provide it, or ``npm`` packages; otherwise ``elsewhere`` says
    where to get it. ``visible`` are patterns of paths it reads outside of /usr.
    """

    name: str
    source: str
    run: Command
    probe: Command
    compile: Words = ()
    artifacts: Words = ()
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
    preparation: PreparationSpec | None = None


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SOURCES = "{sources}"
_SIBLINGS = "{siblings}"


def fill(text: str, values: Mapping[str, str]) -> str | None:
    """Fill the placeholders of ``text``; None if one has no value."""
    if not all(values.get(name) for name in _PLACEHOLDER.findall(text)):
        return None
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def fill_words(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with placeholders filled, without those that have no value."""
    return tuple(word for text in words if (word := fill(text, values)) is not None)


def fill_command(
    command: Command, values: Mapping[str, str], programs: Mapping[str, str]
) -> Command:
    """The command with placeholders filled and its program chosen."""
    if not isinstance(command, Executable):
        return command
    return Executable(fill_words(with_program(command.arguments, programs), values))


def with_program(words: Sequence[str], programs: Mapping[str, str]) -> tuple[str, ...]:
    """The words with the first one replaced by the chosen program."""
    return (programs.get(words[0], words[0]), *words[1:])


def with_sources(words: Sequence[str], source: str, given: Iterable[str]) -> tuple[str, ...]:
    """The words with ``{sources}`` and ``{siblings}`` expanded."""
    kind = PurePosixPath(source).suffix
    alike = sorted(name for name in given if name.endswith(kind) and name != source)
    # Otherwise a compiler could mistake a file name for an option.
    sources = [source, *(name if name[0].isalnum() else f"./{name}" for name in alike)]
    siblings = [name for name in sources if "/" not in name.removeprefix("./")]
    lists = {_SOURCES: sources, _SIBLINGS: siblings}
    return tuple(word for text in words for word in lists.get(text, [text]))
