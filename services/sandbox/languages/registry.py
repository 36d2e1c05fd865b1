"""Languages: from code in one of them to its outcome, and what of them works here."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

from services.sandbox.execution import (
    Ending,
    Limits,
    Outcome,
    OutputListener,
    Runner,
    SandboxFailure,
)
from services.sandbox.languages.availability import Availability, Probes
from services.sandbox.languages.cache import CompileCache
from services.sandbox.languages.catalog import LANGUAGES, Toolchain, find_toolchain
from services.sandbox.languages.declaration import Language
from services.sandbox.languages.plan import Plan, Source

_HASHED_AT_ONCE = 1 << 20
"""Bytes that may be hashed in the event loop; more would keep others waiting."""

_BELIEVED_SECONDS = 5.0


@dataclass(frozen=True)
class Build:
    """A source that was made ready to run, as often as is wanted.

    ``outcome`` is the compilation's, None where there is nothing to compile. It was ``cached``
    when it had been done for somebody earlier: then it cost no time and no memory now.
    """

    outcome: Outcome | None
    cached: bool
    plan: Plan

    @property
    def ready(self) -> bool:
        """Whether it can be run: nothing was to be compiled, or that went well."""
        if self.outcome is None:
            return True
        return self.outcome.ending is Ending.EXITED and self.outcome.return_code == 0


class Languages:
    """Compiles and runs code through ``runner``.

    ``cache_bytes`` of what compilers made are remembered. ``prepared`` is a folder that programs
    can read, with what `services.sandbox.languages.preparation` put there.
    """

    def __init__(self, runner: Runner, *, cache_bytes: int, prepared: Path | None = None) -> None:
        self._runner = runner
        self._prepared = prepared
        self._found: dict[str, tuple[float, Toolchain | None]] = {}
        self._probes = Probes(runner)
        self.cache = CompileCache(cache_bytes)

    async def build(self, source: Source, limits: Limits) -> Build:
        """Compile what is to be compiled.

        Compilers get more memory than ``limits`` say if they need it. Raises `ToolchainMissing`
        and `SandboxFailure`, and KeyError for a language that is none of `LANGUAGES`.
        """
        language = LANGUAGES[source.language]
        plan = Plan(language, self._toolchain(language), source, self._prepared)
        if not plan.compiled:
            return Build(None, cached=False, plan=plan)
        key = plan.key() if plan.size <= _HASHED_AT_ONCE else await asyncio.to_thread(plan.key)
        execution = plan.compilation(limits)
        compilation = await self.cache.get(
            key, execution.limits, lambda: self._runner.run(execution)
        )
        outcome = compilation.outcome
        if outcome.left_out:
            names = ", ".join(outcome.left_out)
            raise SandboxFailure(f"what the compiler made is too large to be kept: {names}")
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
        """Run what is ready; raises `SandboxFailure`."""
        artefacts = build.outcome.files if build.outcome else {}
        return await self._runner.run(
            build.plan.execution(limits, artefacts, stdin, fetch), listener
        )

    def _toolchain(self, language: Language) -> Toolchain:
        """Where the language's programs are; looked up again when that is some seconds old."""
        now = time.monotonic()
        until, toolchain = self._found.get(language.name, (0.0, None))
        if toolchain is None or now > until:
            toolchain = find_toolchain(language)
            self._found[language.name] = (now + _BELIEVED_SECONDS, toolchain)
        return toolchain

    async def available(self) -> tuple[Availability, ...]:
        """What works here and what does not. The first call starts each toolchain once."""
        return await self._probes.all()
