"""The walks of docs/architecture: the files that they name exist, and are counted."""

import re

import pytest

from tests.support.docs.walks import FOLDER, walk

COUNTS = re.compile(r"^\| \[.*\]\((.*\.md)\).* \| (\d+) \|$", re.MULTILINE)
INDEX = (FOLDER / "index.md").read_text()


@pytest.mark.parametrize(("page", "count"), COUNTS.findall(INDEX))
def test_the_files_of_a_walk_exist_and_are_counted(page: str, count: str) -> None:
    files = walk(page)

    assert [path for path in files if not path.is_file()] == []
    assert len(set(files)) == int(count)


def test_every_walk_is_counted() -> None:
    pages = FOLDER.glob("*.md")
    walks = {page.name for page in pages if "\n## The files of " in page.read_text()}

    assert walks == dict(COUNTS.findall(INDEX)).keys()
