"""Compiles and runs code in any of the languages."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

from services.sandbox.execution import (
    ExitReason,
    Limits,
    Outcome,
    OutputListener,
    Runner,
)
from services.sandbox.languages.availability import Availability, Probes
from services.sandbox.languages.cache import CompileCache
from services.sandbox.languages.catalog import LANGUAGES, Toolchain, find_toolchain
from services.sandbox.languages.declaration import Language
from services.sandbox.languages.plan import Plan, Source

_HASHED_AT_ONCE = 1 << 20
"""Bytes that may be hashed in the event loop; more are hashed in a thread."""

_BELIEVED_SECONDS = 5.0


@dataclass(frozen=True)
class Build:
    """A source that is ready to run any number of times.

    ``outcome`` is that of the compilation, None if there is none. A ``cached`` one cost no time and
    no memory now.
    """

    outcome: Outcome | None
    cached: bool
    plan: Plan

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

    async def build(self, source: Source, limits: Limits) -> Build:
        """Compile a source, if its language is compiled.

        Compilers may get more memory than ``limits`` allow. Raises `ToolchainMissing`,
        `SandboxFailure`, and KeyError for an unknown language.
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

    def _toolchain(self, language: Language) -> Toolchain:
        """The language's toolchain, looked up again after some seconds."""
        now = time.monotonic()
        until, toolchain = self._found.get(language.name, (0.0, None))
        if toolchain is None or now > until:
            toolchain = find_toolchain(language)
            self._found[language.name] = (now + _BELIEVED_SECONDS, toolchain)
        return toolchain

    async def available(self) -> tuple[Availability, ...]:
        """What works here and what does not. The first call probes every toolchain."""
        return await self._probes.all()
