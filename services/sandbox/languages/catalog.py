"""All languages, and where their toolchains are on this machine."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from services.contracts.errors import TemperError
from services.sandbox.execution import Executable
from services.sandbox.languages import compiled, interpreted, javascript, jvm
from services.sandbox.languages.declaration import LanguageSpec

_FAMILIES = (interpreted, javascript, compiled, jvm)

LANGUAGES: Mapping[str, LanguageSpec] = MappingProxyType(
    {language.name: language for family in _FAMILIES for language in family.FAMILY}
)

_GPU = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def visible_paths() -> tuple[str, ...]:
    """Existing paths that toolchains read, beyond what every program sees."""
    patterns = {pattern for language in LANGUAGES.values() for pattern in language.visible}
    return _existing(patterns)


def gpu_devices() -> tuple[str, ...]:
    """Existing device files of NVIDIA GPUs."""
    return _existing(_GPU)


def _existing(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(path for pattern in patterns for path in existing(pattern)))


SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH for programs, inside and outside of the sandbox."""

_RELATIVE = "./"


class ToolchainMissing(TemperError):
    """A language cannot run here; the message says what is missing and how to install it."""

    code = "toolchain_missing"


@dataclass(frozen=True)
class Toolchain:
    """A toolchain found on this machine.

    ``programs`` maps alternatives to the chosen program, ``paths`` the names in ``present`` and
    ``optional`` to paths. ``identity`` changes with the installation, ``compiler`` with the
    compiler alone.
    """

    programs: Mapping[str, str]
    paths: Mapping[str, str]
    identity: str
    compiler: str


def find_toolchain(language: LanguageSpec) -> Toolchain:
    """Locate a toolchain, with file system lookups only; raises `ToolchainMissing`."""
    programs: dict[str, str] = {}
    marks: list[str] = []
    for names in _programs(language):
        path = _first_program(names)
        if path is None:
            raise ToolchainMissing(_sentence(language, names.split("|")[0]))
        programs[names] = Path(path).name
        marks.append(_mark(path))
    paths: dict[str, str] = {}
    for name, patterns in language.present.items():
        found = _first_path(patterns)
        if found is None:
            raise ToolchainMissing(_sentence(language, patterns.split("|")[0]))
        paths[name] = found
    for name, patterns in language.optional.items():
        paths[name] = _first_path(patterns) or ""
    identity = " ".join((*marks, *paths.values()))
    return Toolchain(programs, paths, identity, compiler=marks[0] if language.compile else "")


def existing(pattern: str) -> list[str]:
    """Absolute paths that match ``pattern``."""
    if "*" not in pattern:
        return [pattern] if Path(pattern).exists() else []
    return sorted(str(path) for path in Path("/").glob(pattern.lstrip("/")))


def _programs(language: LanguageSpec) -> Iterable[str]:
    """The programs of all commands, with alternatives grouped, without duplicates."""
    names = [*language.compile[:1], *language.programs]
    for command in (language.run, language.probe):
        if isinstance(command, Executable):
            names.append(command.arguments[0])
    return dict.fromkeys(name for name in names if not name.startswith(_RELATIVE))


def _first_program(names: str) -> str | None:
    found = (shutil.which(name, path=SEARCH_PATH) for name in names.split("|"))
    return next((path for path in found if path), None)


def _first_path(patterns: str) -> str | None:
    return next((path for pattern in patterns.split("|") for path in existing(pattern)), None)


def _mark(path: str) -> str:
    """Identifies a program's file and version."""
    real = Path(path).resolve()
    state = real.stat()
    return f"{real}:{state.st_mtime_ns}:{state.st_size}"


def _sentence(language: LanguageSpec, missing: str) -> str:
    text = f"The language {language.name} is not installed in this sandbox: {missing} is missing."
    if language.debian:
        text += f" Install it with: apt-get install {' '.join(language.debian)}"
        if language.npm:
            text += f", or: npm install --global {' '.join(language.npm)}"
    else:
        text += f" It needs {language.elsewhere}"
    return f"{text}."
