"""The walks of docs/architecture: the files that they name exist, and are counted."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| [\w-]+ \| (.*`.*) \|$", re.MULTILINE)


def walk(page: str) -> list[Path]:
    """The files of a page's table; a folder before a colon counts for the names after it."""
    text = (REPOSITORY / "docs/architecture" / page).read_text()
    files = []
    for row in ROW.findall(text):
        for group in row.split(";"):
            folder, _, names = group.rpartition(":")
            base = "/".join(re.findall(r"`([^`]+)`", folder))
            files += [REPOSITORY / base / name for name in re.findall(r"`([^`]+)`", names)]
    return files


COUNTS = re.compile(r"^\| \[.*\]\((.*\.md)\).* \| (\d+) \|$", re.MULTILINE)
INDEX = (REPOSITORY / "docs/architecture/index.md").read_text()


@pytest.mark.parametrize(("page", "count"), COUNTS.findall(INDEX))
def test_the_files_of_a_walk_exist_and_are_counted(page: str, count: str) -> None:
    files = walk(page)

    assert [path for path in files if not path.is_file()] == []
    assert len(set(files)) == int(count)


def test_every_walk_is_counted() -> None:
    pages = (REPOSITORY / "docs/architecture").glob("*.md")
    walks = {page.name for page in pages if "\n## The files of " in page.read_text()}

    assert walks == dict(COUNTS.findall(INDEX)).keys()
