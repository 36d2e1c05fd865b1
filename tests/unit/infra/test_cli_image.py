"""The image of the command line, with its code and its command but without Docker."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY

_STAGE = re.compile(r"^FROM \w+ AS cli\n(.*?)^FROM ", re.MULTILINE | re.DOTALL)


def _instructions() -> str:
    found = _STAGE.search((REPOSITORY / "Dockerfile").read_text())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code that is in the image."""
    app = tmp_path_factory.mktemp("app")
    for source in re.findall(r"^COPY (\S+) \1$", _instructions(), re.MULTILINE):
        copy = shutil.copytree if (REPOSITORY / source).is_dir() else shutil.copyfile
        (app / source).parent.mkdir(exist_ok=True)
        copy(REPOSITORY / source, app / source)
    return app


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder of the user's that is mounted."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def run(code: Path, work: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the image's command in the folder of its user."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", _instructions(), re.MULTILINE)
    python, *command = json.loads(entry)
    assert python == "python"
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=work,
        env={"PYTHONPATH": str(code), "TEMPER_HOME": str(work.parent / "home")},
        capture_output=True,
        text=True,
        timeout=60,  # a stack that starts would run on
        check=False,
    )


def test_nothing_is_imported_from_the_folder_of_the_user(code: Path, work: Path) -> None:
    for name in ("random.py", "temper.py", "services.py"):
        (work / name).write_text("raise SystemExit('code of the user')")

    ran = run(code, work, "keys", "new", "--json")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["key"]


@pytest.mark.parametrize(
    "arguments",
    ["index list", "up", "up --detach", "down", "serve api", "open --demo", "batch compare a a"],
)
def test_commands_that_run_services_are_refused_in_words(
    code: Path, work: Path, arguments: str
) -> None:
    (work / "a").touch()

    ran = run(code, work, *arguments.split())

    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("temper: error: ")
    assert "not in this installation" in line
    assert line.endswith("(server_missing)")
    assert list(work.iterdir()) == [work / "a"]
    assert not (work.parent / "home").exists()
