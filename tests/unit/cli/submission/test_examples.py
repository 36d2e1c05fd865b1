"""Every job file under examples/ can be submitted."""

from pathlib import Path

import pytest

from services.core.process.runtimes import REPOSITORY
from temper.submission.job_file import read_job_file

EXAMPLES = REPOSITORY / "examples"


@pytest.mark.parametrize(
    "path",
    sorted(EXAMPLES.rglob("*.yaml")),
    ids=lambda path: path.relative_to(EXAMPLES).as_posix(),
)
def test_an_example_is_a_job_file_with_its_data(path: Path, tmp_path: Path) -> None:
    submission = read_job_file(path, tmp_path)

    assert submission.files
    assert all(file.path.is_file() for file in submission.files)
