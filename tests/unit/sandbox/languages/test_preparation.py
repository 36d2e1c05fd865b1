"""Precompiled inputs are made once per compiler; failures are skipped."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.sandbox.languages import preparation as module
from services.sandbox.languages.declaration import LanguageSpec, PreparationSpec
from services.sandbox.languages.preparation import prepare
from tests.support.waiting import wait_for
from tests.unit.sandbox.languages.toys import AddProgram, toy

COUNT_AND_MAKE = 'echo x >> "$COUNT"; cat given.txt > made.txt; pwd >> made.txt'


@pytest.fixture
def language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, add_program: AddProgram
) -> LanguageSpec:
    add_program("toy")
    add_program("toyc", COUNT_AND_MAKE)
    monkeypatch.setattr(
        module, "SEARCH_PATH", f"{tmp_path / 'programs'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    )
    language = toy(
        preparation=PreparationSpec(
            command=("toyc",),
            products=("made.txt",),
            files={"given.txt": "given\n"},
            environment={"COUNT": str(tmp_path / "count")},
        )
    )
    monkeypatch.setattr(module, "LANGUAGES", {"toy": language})
    return language


def _made(root: Path) -> list[Path]:
    return sorted(root.glob("*/made.txt"))


@pytest.mark.usefixtures("language")
def test_preparation_runs_once(tmp_path: Path) -> None:
    root = tmp_path / "prepared"
    prepare(root)
    prepare(root)
    (made,) = _made(root)
    assert made.read_text().startswith("given\n")
    assert (tmp_path / "count").read_text() == "x\n"


@pytest.mark.usefixtures("language")
def test_a_new_compiler_replaces_the_prepared_folder(
    tmp_path: Path, add_program: AddProgram
) -> None:
    root = tmp_path / "prepared"
    prepare(root)
    (before,) = _made(root)
    add_program("toyc", f"{COUNT_AND_MAKE}; true")
    prepare(root)
    (after,) = _made(root)
    assert before != after


@pytest.mark.usefixtures("language")
def test_a_failing_preparation_leaves_nothing(
    tmp_path: Path, add_program: AddProgram, capfd: pytest.CaptureFixture[str]
) -> None:
    add_program("toyc", "touch made.txt; exit 3")
    root = tmp_path / "prepared"
    prepare(root)
    assert [path.name for path in root.iterdir()] == ["lock"]
    assert "toyc" in capfd.readouterr().err


@pytest.mark.usefixtures("language")
def test_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "prepared"
    (root / "tmpabc" / "work").mkdir(parents=True)
    prepare(root)
    assert not (root / "tmpabc").exists()


@pytest.mark.usefixtures("language")
def test_preparation_skips_a_locked_folder(tmp_path: Path) -> None:
    root = tmp_path / "prepared"
    (root / "theirs").mkdir(parents=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare(root)
    assert (root / "theirs").exists()
    assert _made(root) == []


@pytest.mark.usefixtures("language")
def test_a_preparation_that_takes_too_long_ends_with_its_compilers(
    tmp_path: Path,
    add_program: AddProgram,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    add_program("toyc", 'sleep 600 & echo $! > "$COUNT"; wait')
    monkeypatch.setattr(module, "STEP_SECONDS", 0.5)
    prepare(tmp_path / "prepared")

    assert "timed out" in capfd.readouterr().err
    compiler = Path("/proc", (tmp_path / "count").read_text().strip(), "stat")
    assert not compiler.exists() or ") Z " in compiler.read_text()


COMPILING = """
import subprocess
from services.sandbox.languages.preparation import end_with_the_service
end_with_the_service()
with subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL) as compiler:
    print(compiler.pid, flush=True)
"""


def test_a_compiler_ends_when_the_service_dies() -> None:
    command = [sys.executable, "-c", COMPILING]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, start_new_session=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        compiler = int(process.stdout.readline())
        process.stdin.close()  # as the kernel does for a service that is killed

        assert process.wait(60) == -signal.SIGKILL
    wait_for(lambda: not is_running(compiler), "the compiler's end", 60)


def test_a_preparation_ends_before_the_service() -> None:
    command = [sys.executable, "-c", COMPILING.replace("600", "0")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, start_new_session=True, stdin=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
