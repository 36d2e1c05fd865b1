"""Compiles and runs code in any language: turns declarations and toolchains into executions."""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from services.sandbox.execution import (
    Executable,
    Execution,
    ExitReason,
    Limits,
    Outcome,
    OutputListener,
    PythonFile,
    PythonModule,
    Runner,
)
from services.sandbox.languages.availability import Availability, Probes
from services.sandbox.languages.cache import CompileCache
from services.sandbox.languages.catalog import LANGUAGES, Toolchain, find_toolchain
from services.sandbox.languages.code import python_imports
from services.sandbox.languages.declaration import (
    Facts,
    LanguageSpec,
    fill,
    fill_command,
    fill_words,
    with_program,
    with_sources,
)
from services.sandbox.languages.preparation import prepared_folder

_INLINE_HASH_BYTES = 1 << 20
"""Bytes that may be hashed in the event loop; more are hashed in a thread."""

_BELIEVED_SECONDS = 5.0


@dataclass(frozen=True)
class ProgramSource:
    """Code in a language, with additional files by checked path."""

    language: str
    code: bytes
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Build:
    """A source that is ready to run any number of times.

    ``outcome`` is that of the compilation, None if there is none. A ``cached`` one cost no time and
    no memory now.
    """

    outcome: Outcome | None
    cached: bool
    plan: "Plan"

    @property
    def ready(self) -> bool:
        """Whether it can run: there was nothing to compile, or it succeeded."""
        if self.outcome is None:
            return True
        return self.outcome.exit_reason is ExitReason.EXITED and self.outcome.return_code == 0


class Languages:
    """Compiles and runs code with ``runner``.

    Caches up to ``cache_bytes`` of compiled programs. ``prepared`` is the folder of
    `services.sandbox.languages.preparation`.
    """

    def __init__(self, runner: Runner, *, cache_bytes: int, prepared: Path | None = None) -> None:
        self._runner = runner
        self._prepared = prepared
        self._found: dict[str, tuple[float, Toolchain | None]] = {}
        self._probes = Probes(runner)
        self.cache = CompileCache(cache_bytes)

    async def build(self, source: ProgramSource, limits: Limits) -> Build:
        """Compile a source, if its language is compiled.

        Compilers may get more memory than ``limits`` allow. Raises `ToolchainMissing`,
        `SandboxFailure`, and KeyError for an unknown language.
        """
        language = LANGUAGES[source.language]
        plan = Plan(language, self._toolchain(language), source, self._prepared)
        if not plan.compiled:
            return Build(None, cached=False, plan=plan)
        key = plan.key() if plan.size <= _INLINE_HASH_BYTES else await asyncio.to_thread(plan.key)
        execution = plan.compilation(limits)
        compilation = await self.cache.get(
            key, execution.limits, lambda: self._runner.run(execution)
        )
        outcome = compilation.outcome
        if outcome.left_out:
            reason = f"\nthe compiled program is too large: {', '.join(outcome.left_out)}\n"
            outcome = replace(outcome, return_code=1, stderr=outcome.stderr + reason.encode())
        if compilation.cached:
            outcome = replace(outcome, wall_seconds=0.0, cpu_seconds=0.0, peak_memory_bytes=0)
        return Build(outcome, cached=compilation.cached, plan=plan)

    async def run(
        self,
        build: Build,
        limits: Limits,
        *,
        stdin: bytes = b"",
        fetch: tuple[str, ...] = (),
        listener: OutputListener | None = None,
    ) -> Outcome:
        """Run a build; raises `SandboxFailure`."""
        artifacts = build.outcome.files if build.outcome else {}
        return await self._runner.run(
            build.plan.execution(limits, artifacts, stdin, fetch), listener
        )

    def _toolchain(self, language: LanguageSpec) -> Toolchain:
        """The language's toolchain, looked up again after some seconds."""
        now = time.monotonic()
        until, toolchain = self._found.get(language.name, (0.0, None))
        if toolchain is None or now > until:
            toolchain = find_toolchain(language)
            self._found[language.name] = (now + _BELIEVED_SECONDS, toolchain)
        return toolchain

    async def available(self) -> tuple[Availability, ...]:
        """Availability of every language. The first call probes every toolchain."""
        return await self._probes.all()


def source_path(language: LanguageSpec, code: bytes) -> str:
    """The file that the code is written to."""
    return fill(language.source, _facts(language, code)) or language.source


def _facts(language: LanguageSpec, code: bytes) -> Facts:
    return language.facts(code) if language.facts else {}


_HEAP_SHARE = 0.65
_MIN_HEAP_MB = 16
_MEBIBYTE = 1 << 20


class Plan:
    """How one source is compiled and run, independent of limits and input."""

    def __init__(
        self,
        language: LanguageSpec,
        toolchain: Toolchain,
        source: ProgramSource,
        prepared: Path | None,
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
        return {**self._values, "heap": str(max(_MIN_HEAP_MB, heap))}

    def _environment(self, values: Mapping[str, str]) -> dict[str, str]:
        filled = {name: fill(text, values) for name, text in self._language.environment.items()}
        return {name: text for name, text in filled.items() if text is not None}


def _files(language: LanguageSpec, source: ProgramSource, name: str) -> dict[str, bytes]:
    """The given files and ours; empty code leaves a given file of the same name in place."""
    files = dict(source.files)
    files.update((path, text.encode()) for path, text in language.support.items())
    if source.code or name not in files:
        files[name] = language.rewrite(source.code) if language.rewrite else source.code
    return files


def _imports(language: LanguageSpec, code: bytes) -> frozenset[str]:
    match language.run:
        case PythonFile():
            return python_imports(code)
        case PythonModule(module):
            return python_imports(code) | {module}
        case _:
            return frozenset()
