"""What a language is to the sandbox: the names of its files, its commands, and its toolchain.

A declaration is data. In commands, environment values and file names, ``{heap}`` stands for the
megabytes that a managed heap may take of the memory limit, ``{prepared}`` for the folder of what
was prepared ahead, the names in ``present`` and ``optional`` for the paths found there, and any
other name for what ``facts`` reads in the code. A word whose placeholder has no value is left
out. The word ``{sources}`` becomes the code's file and the given files of its kind,
``{siblings}`` those of them in the same folder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from services.sandbox.execution import Command

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
