"""`make docs` builds without warnings, and a dead link is a warning."""

import os
import shutil
from pathlib import Path

import pytest

from infra.docs import build
from services.core.process.runtimes import REPOSITORY

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of the site generator, in the environment that `make docs` uses."""
    home = Path(os.environ.get("TEMPER_HOME") or REPOSITORY / ".temper")
    return build.install(home / "docs" / "environment")


def test_the_site_builds_without_warnings(python: Path, tmp_path: Path) -> None:
    assert build.build(python, build.SOURCE, tmp_path / "html") == 0
    assert (tmp_path / "html" / "operations" / "settings.html").is_file()


def test_every_dead_link_is_named_and_fails_the_build(
    python: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "docs"
    shutil.copytree(build.SOURCE, source)
    with open(source / "sandbox.md", "a") as page:
        page.write("\n[dead](nowhere.md) and [dead](quickstart.md#no-such-heading)\n")

    assert build.build(python, source, tmp_path / "html") != 0

    said = capfd.readouterr().err
    assert "nowhere.md" in said
    assert "no-such-heading" in said
