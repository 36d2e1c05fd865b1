"""The compilers and interpreters for the sandbox's tests.

The sandbox's declaration of a language names its packages. Languages whose toolchain comes from
outside the distribution are left to the operator.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from infra.debian import PackagesUnavailable, as_root, install_packages
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from services.sandbox.languages.catalog import LANGUAGES, ToolchainMissing, find_toolchain
from services.sandbox.languages.declaration import LanguageSpec

NPM_SECONDS = 600.0


def has_languages() -> bool:
    """Whether every language that packages provide is installed."""
    return not _missing()


def install_languages(log: Path, lock: int, progress: Progress) -> None:
    """Install the missing ones; raises `PackagesUnavailable`, naming what stays missing."""
    try:
        install_packages(_packages(_missing()), log, lock, progress)
    except PackagesUnavailable:  # one unavailable package must not block the others
        reasons = [reason for each in _missing() if (reason := _install(each, log, lock, progress))]
        if reasons:
            raise PackagesUnavailable("; ".join(reasons)) from None
    if missing := _missing():
        names = ", ".join(language.name for language in missing)
        raise PackagesUnavailable(f"its packages are installed, but still missing: {names}")


def _install(language: LanguageSpec, log: Path, lock: int, progress: Progress) -> str:
    """Install one language with apt or npm; return the reason for a failure, or ""."""
    try:
        install_packages(language.debian, log, lock, progress)
    except PackagesUnavailable as error:
        if not language.npm or shutil.which("npm") is None:
            return f"{language.name}: {error}"
        return _install_with_npm(language, log, lock, progress)
    return ""


def _install_with_npm(language: LanguageSpec, log: Path, lock: int, progress: Progress) -> str:
    root = as_root()
    if root is None:
        return f"{language.name}: npm install --global needs root"
    wanted = " ".join(language.npm)
    command = [*root, "npm", "install", "--global", "--no-audit", "--no-fund", *language.npm]
    try:
        run_logged(
            command,
            log=log,
            lock=lock,
            limit=NPM_SECONDS,
            tick=lambda: progress.show(f"installing {wanted} with npm"),
        )
    except CommandFailed as error:
        return f"{language.name}: npm could not install {wanted} ({error}); see {log}"
    return ""


def _missing() -> list[LanguageSpec]:
    return [each for each in LANGUAGES.values() if each.debian and not _is_there(each)]


def _is_there(language: LanguageSpec) -> bool:
    try:
        find_toolchain(language)
    except ToolchainMissing:
        return False
    return True


def _packages(languages: Iterable[LanguageSpec]) -> list[str]:
    return list(dict.fromkeys(name for language in languages for name in language.debian))
