"""Which languages work here: runs each toolchain's version command in the sandbox."""

import asyncio
import re
import time
from dataclasses import dataclass

from services.sandbox.execution import (
    Execution,
    ExitReason,
    Limits,
    Outcome,
    Runner,
    SandboxFailure,
)
from services.sandbox.languages.catalog import (
    LANGUAGES,
    Toolchain,
    ToolchainMissing,
    find_toolchain,
)
from services.sandbox.languages.declaration import LanguageSpec, fill, fill_command

_LIMITS = Limits(seconds=30.0, memory_bytes=1 << 30, output_bytes=64 * 1024)
_CONCURRENT = 2
_RETRY_SECONDS = 60.0
"""Retry interval of a failed probe: the machine may have been overloaded."""

_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+~]?\w+)?")
_SHOWN = 300


@dataclass(frozen=True)
class Availability:
    """Whether a language works here, with its version, or with the reason in ``message``."""

    language: str
    available: bool
    version: str | None
    message: str


@dataclass(frozen=True)
class _Known:
    """The result of a probe, and how long it is valid."""

    identity: str
    until: float
    availability: Availability


class Probes:
    """Probes each toolchain once, a few at a time, and again after it changes."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._known: dict[str, _Known] = {}
        self._asking = {name: asyncio.Lock() for name in LANGUAGES}
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def all(self) -> tuple[Availability, ...]:
        """All languages, in catalog order."""
        probes = (self._of(language) for language in LANGUAGES.values())
        return tuple(await asyncio.gather(*probes))

    async def _of(self, language: LanguageSpec) -> Availability:
        try:
            toolchain = find_toolchain(language)
        except ToolchainMissing as error:
            return Availability(language.name, False, None, error.message)
        async with self._asking[language.name]:
            known = self._known.get(language.name)
            if (
                known is None
                or known.identity != toolchain.identity
                or time.monotonic() > known.until
            ):
                async with self._slots:
                    availability = await self._ask(language, toolchain)
                lasts = float("inf") if availability.available else _RETRY_SECONDS
                known = _Known(toolchain.identity, time.monotonic() + lasts, availability)
                self._known[language.name] = known
            return known.availability

    async def _ask(self, language: LanguageSpec, toolchain: Toolchain) -> Availability:
        try:
            outcome = await self._runner.run(_probe(language, toolchain))
        except SandboxFailure as error:
            return _broken(language, error.message)
        text = (outcome.stdout + b"\n" + outcome.stderr).decode("utf-8", "replace")
        if outcome.exit_reason is ExitReason.EXITED and outcome.return_code == 0:
            version = _VERSION.search(text)
            return Availability(language.name, True, version[0] if version else None, "")
        return _broken(language, _reason(outcome, text))


def _probe(language: LanguageSpec, toolchain: Toolchain) -> Execution:
    environment = {name: fill(text, toolchain.paths) for name, text in language.environment.items()}
    return Execution(
        command=fill_command(language.probe, toolchain.paths, toolchain.programs),
        limits=_LIMITS,
        files={name: text.encode() for name, text in language.probe_files.items()},
        environment={name: text for name, text in environment.items() if text is not None},
    )


def _reason(outcome: Outcome, text: str) -> str:
    if outcome.exit_reason is ExitReason.TIMED_OUT:
        return f"it did not print its version within {_LIMITS.seconds:.0f} s"
    if outcome.exit_reason is ExitReason.OUT_OF_MEMORY:
        return "it ran out of memory"
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:_SHOWN] if lines else f"it exited with code {outcome.return_code}"


def _broken(language: LanguageSpec, reason: str) -> Availability:
    message = f"The language {language.name} is installed but does not work here: {reason}"
    return Availability(language.name, False, None, message)
