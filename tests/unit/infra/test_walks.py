"""The walks of docs/architecture: the files that they name exist, and do not become more."""

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


@pytest.mark.parametrize(
    ("page", "most"),
    [("fine-tuning-job.md", 47), ("evaluation.md", 72), ("run-code.md", 43), ("rl-step.md", 66)],
)
def test_the_files_of_a_walk_exist_and_do_not_become_more(page: str, most: int) -> None:
    files = walk(page)

    assert [path for path in files if not path.is_file()] == []
    assert 10 < len(set(files)) <= most
