"""The walks of docs/architecture, as their pages list them."""

import re
from pathlib import Path

from tests.support.processes import REPOSITORY

FOLDER = REPOSITORY / "docs/architecture"
_ROW = re.compile(r"^\| [\w-]+ \| (.*`.*) \|$", re.MULTILINE)


def walk(page: str) -> list[Path]:
    """The files of a page's table; a folder before a colon counts for the names after it."""
    files = []
    for row in _ROW.findall((FOLDER / page).read_text()):
        for group in row.split(";"):
            folder, _, names = group.rpartition(":")
            base = "/".join(re.findall(r"`([^`]+)`", folder))
            files += [REPOSITORY / base / name for name in re.findall(r"`([^`]+)`", names)]
    return files


def named(*pages: str) -> set[str]:
    """The files of the tables of some pages, relative to the repository."""
    return {str(file.relative_to(REPOSITORY)) for page in pages for file in walk(page)}
