"""How a source is compiled and run: from its declaration and toolchain to executions."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.sandbox.execution import Executable, Execution, Limits, PythonFile, PythonModule
from services.sandbox.languages.catalog import Toolchain
from services.sandbox.languages.code import python_imports
from services.sandbox.languages.declaration import (
    Facts,
    Language,
    fill,
    fill_command,
    fill_words,
    with_program,
    with_sources,
)
from services.sandbox.languages.preparation import prepared_folder

_HEAP_SHARE = 0.65
_LEAST_HEAP_MB = 16
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Source:
    """Code in a language, with additional files by checked path."""

    language: str
    code: bytes
    files: Mapping[str, bytes] = field(default_factory=dict)


def source_path(language: Language, code: bytes) -> str:
    """The file that the code is written to."""
    return fill(language.source, _facts(language, code)) or language.source


def _facts(language: Language, code: bytes) -> Facts:
    return language.facts(code) if language.facts else {}


class Plan:
    """How one source is compiled and run, independent of limits and input."""

    def __init__(
        self, language: Language, toolchain: Toolchain, source: Source, prepared: Path | None
    ) -> None:
        self._language = language
        self._toolchain = toolchain
        facts = _facts(language, source.code)
        folder = prepared_folder(prepared, language, toolchain)
        self._values = {**facts, **toolchain.paths, "prepared": str(folder or "")}
        self._file = source_path(language, source.code)
        self._files = _files(language, source, self._file)
        self._imports = _imports(language, source.code)

    @property
    def compiled(self) -> bool:
        """Whether there is a compilation step."""
        return bool(self._language.compile)

    @property
    def size(self) -> int:
        """Total bytes of its files."""
        return sum(len(content) for content in self._files.values())

    def key(self) -> str:
        """Cache key: equal exactly for sources that compile to the same."""
        digest = hashlib.sha256()
        words = (self._language.name, self._toolchain.identity, *self._compile_words())
        parts = [word.encode() for word in words]
        for name, content in sorted(self._files.items()):
            parts += [name.encode(), content]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()

    def compilation(self, limits: Limits) -> Execution:
        """The compiler's execution; its memory limit may be raised to what it needs."""
        memory = max(limits.memory_bytes, self._language.compiler_mb * _MEBIBYTE)
        limits = Limits(limits.seconds, memory, limits.output_bytes)
        values = self._with_heap(limits)
        return Execution(
            command=Executable(fill_words(self._compile_words(), values)),
            limits=limits,
            files=self._files,
            environment=self._environment(values),
            fetch=self._language.artifacts,
        )

    def execution(
        self, limits: Limits, artifacts: Mapping[str, bytes], stdin: bytes, fetch: tuple[str, ...]
    ) -> Execution:
        """The program's execution on ``stdin``, with the compiled ``artifacts``."""
        values = self._with_heap(limits)
        return Execution(
            command=fill_command(self._language.run, values, self._toolchain.programs),
            limits=limits,
            files={**self._files, **artifacts},
            executable_files=frozenset(artifacts),
            environment=self._environment(values),
            stdin=stdin,
            fetch=fetch,
            imports=self._imports,
        )

    def _compile_words(self) -> tuple[str, ...]:
        words = with_program(self._language.compile, self._toolchain.programs)
        return with_sources(words, self._file, self._files)

    def _with_heap(self, limits: Limits) -> Mapping[str, str]:
        heap = int(limits.memory_bytes * _HEAP_SHARE) // _MEBIBYTE
        return {**self._values, "heap": str(max(_LEAST_HEAP_MB, heap))}

    def _environment(self, values: Mapping[str, str]) -> dict[str, str]:
        filled = {name: fill(text, values) for name, text in self._language.environment.items()}
        return {name: text for name, text in filled.items() if text is not None}


def _files(language: Language, source: Source, name: str) -> dict[str, bytes]:
    """The given files and ours; empty code leaves a given file of the same name in place."""
    files = dict(source.files)
    files.update((path, text.encode()) for path, text in language.support.items())
    if source.code or name not in files:
        files[name] = language.rewrite(source.code) if language.rewrite else source.code
    return files


def _imports(language: Language, code: bytes) -> frozenset[str]:
    match language.run:
        case PythonFile():
            return python_imports(code)
        case PythonModule(module):
            return python_imports(code) | {module}
        case _:
            return frozenset()
