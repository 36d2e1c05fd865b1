"""A kind of job, added to a copy of the repository as docs/architecture/extending.md says."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from services.core.process.runtimes import REPOSITORY
from tests.support.processes import running, running_service

pytestmark = pytest.mark.drill

PAGE = REPOSITORY / "docs/architecture/extending.md"
COPIED = ("services", "temper", "infra", "docs", "tests", "pyproject.toml", "README.md")
MOST_FILES = 8
DRIFT_TESTS = (
    "tests/unit/api/jobs/test_kinds.py",
    "tests/unit/cli/client/test_types.py",
    "tests/unit/cli/requests/test_start.py::test_the_fields_of_every_kind_are_listed",
    "tests/unit/cli/test_help.py::test_a_kind_is_listed_and_started_with_its_own_types",
    "tests/architecture/test_descriptions.py",
)
_CHANGE = re.compile(
    r"In `(?P<folder>[\w/]+)`, `(?P<name>[\w./]+)`:\n\n"
    r"(?P<block> +```(?P<language>python|diff)\n.*?\n +```\n)",
    re.DOTALL,
)


class Change(NamedTuple):
    """A file that the page writes, or changes by hunks without line numbers."""

    path: str
    is_new: bool
    text: str

    def apply(self, repository: Path) -> None:
        """Write the file; the lines that a hunk is found by are there once."""
        target = repository / self.path
        assert target.exists() != self.is_new, self.path
        if self.is_new:
            target.parent.mkdir(exist_ok=True)
            target.write_text(self.text)
            return
        text = target.read_text()
        for hunk in self.text.split("@@\n"):
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] != "+")
            new = "".join(line[1:] for line in lines if line[0] != "-")
            if not old.strip():
                raise AssertionError(f"a hunk of {self.path} says not where it belongs")
            assert text.count(old) == 1, f"{self.path} does not have once:\n{old}"
            text = text.replace(old, new)
        target.write_text(text)


def changes() -> list[Change]:
    """What the page writes and changes, in its order."""
    part = PAGE.read_text().split("\n## ")[1]
    found = []
    for match in _CHANGE.finditer(part):
        block = textwrap.dedent(match["block"]).splitlines(keepends=True)
        text = "".join(block[1:-1])
        is_new = match["language"] == "python"
        found.append(Change(f"{match['folder']}/{match['name']}", is_new, text))
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with the added kind, and with generated parts that know it."""
    folder = tmp_path_factory.mktemp("repository")
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_file():
            shutil.copy(source, folder / name)
        else:
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, folder / name, ignore=ignored)
    for change in changes():
        change.apply(folder)
    run(folder, folder / ".temper", "-m", "infra.tables")
    return folder


def environment(copy: Path, home: Path) -> dict[str, str]:
    """That of a process which imports the copy, wherever it is started."""
    return {"PYTHONPATH": str(copy), "PYTHONSAFEPATH": "1", "TEMPER_HOME": str(home)}


def run(copy: Path, home: Path, *arguments: str, **more: str) -> str:
    """What a Python program prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), **environment(copy, home), **more},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def test_a_kind_takes_the_files_that_the_page_shows() -> None:
    paths = [change.path for change in changes()]

    assert 4 <= len(paths) <= MOST_FILES
    assert len(set(paths)) == len(paths)
    assert "services/contracts/kinds.py" in paths


def test_everything_that_reads_the_kinds_knows_an_added_one(copy: Path, tmp_path: Path) -> None:
    options = ("-v", "-n", "0", "-p", "no:cacheprovider")
    done = run(copy, tmp_path, "-m", "pytest", *options, *DRIFT_TESTS)
    run(copy, tmp_path, "-m", "infra.tables", "--check")

    assert "test_the_gateway_has_every_route_of_a_kind[echo]" in done
    assert "### client.echoes" in (copy / "docs/client.md").read_text()
    assert "/v1/echoes" in (copy / "docs/rest.md").read_text()


def test_a_job_of_an_added_kind_runs_and_is_shown(copy: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = environment(copy, home)
    (tmp_path / "words.txt").write_text(" and good bye")
    job = tmp_path / "echo.yaml"
    job.write_text("kind: echo\ntext: hi\nfile: words.txt\n")
    with (
        running_service("services.api", env, tmp_path / "gateway.log") as (_, url),
        running("services.evaluator", (), env, tmp_path / "worker.log"),
    ):

        def temper(*words: str) -> str:
            return run(copy, home, "-m", "temper", *words, TEMPER_API_URL=url)

        started = temper("echo", "start", "-f", str(job), "--set", "text=hello").split()[0]
        temper("wait", started, "--timeout", "240")
        shown = json.loads(temper("show", started, "--json"))
        listed = json.loads(temper("ps", "--kind", "echo", "--json"))["data"]
        own = run(copy, home, "-c", CLIENT, url, started)

    assert shown["status"] == "succeeded"
    assert shown["answer"] == "HELLO AND GOOD BYE"
    assert [(each["id"], each["name"]) for each in listed] == [(started, "echo of words.txt")]
    assert own.split() == ["Echo", "user_data"]


CLIENT = """
import sys
from temper import Temper
from temper.types import CreateEcho, Echo

with Temper(sys.argv[1]) as client:
    job = client.echoes.get(sys.argv[2])
    assert isinstance(job, Echo) and CreateEcho(text="x")
    print(type(job).__name__, client.files.get(job.file).purpose.value)
"""
