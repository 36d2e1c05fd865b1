"""The code of this checkout, and that of an earlier one with another schema of the database."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY

MIGRATIONS = REPOSITORY / "services" / "core" / "db" / "migrations" / "versions"


@dataclass(frozen=True)
class Release:
    """Code with a schema; ``copy`` writes it into an existing folder."""

    schema: str
    copy: Callable[[Path], None]


def current() -> Release:
    """What git knows of the repository, changes included."""

    def copy(folder: Path) -> None:
        for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard"):
            if (source := REPOSITORY / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, folder / name)
        folder.chmod(0o755)

    return Release(_revision(_migrations()[-1]), copy)


def older_schema() -> Release:
    """The first commit with the schema before the last migration; skips without its history."""
    before = _migrations()[-2]
    found = _git("log", "-z", "--format=%H", "--diff-filter=A", "-1", "--", str(before))
    if not found:
        pytest.skip("the commits of an older schema are missing: this clone is shallow")

    def copy(folder: Path) -> None:
        archive = folder / "release.tar"
        _git("archive", f"--output={archive}", found[0])
        subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
        archive.unlink()

    return Release(_revision(before), copy)


def _migrations() -> list[Path]:
    return sorted(MIGRATIONS.glob("[0-9]*.py"))


def _revision(migration: Path) -> str:
    return migration.name.partition("_")[0]


def _git(*arguments: str) -> list[str]:
    asked = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [each for each in asked.stdout.split("\0") if each]
