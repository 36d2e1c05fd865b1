"""Runs a module as a program, and records which of our files it executes in which phase of a test.

``python -m tests.support.docs.executed FOLDER python -m MODULE ...``: a launcher of `running`. A
test names the phase in a file of the folder, and waits until every process has taken notice.
"""

import ast
import atexit
import os
import runpy
import sys
import threading
from pathlib import Path

import coverage
from coverage import CoverageData

from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

POLL_SECONDS = 0.05
PHASE = "phase"


def recording(folder: Path) -> list[str]:
    """The launcher of a process that records into a folder."""
    return [sys.executable, "-m", "tests.support.docs.executed", str(folder)]


def begin(phase: str, folder: Path, processes: int) -> None:
    """Let all processes that record into a folder begin a phase."""
    (folder / "next").write_text(phase)
    (folder / "next").rename(folder / PHASE)
    wait_for(lambda: len(list(folder.glob(f"*.{phase}"))) == processes, f"{phase} has begun")


def executed(phase: str, folder: Path) -> set[str]:
    """The files below services of which a function ran in a phase, relative to the repository."""
    found = set()
    for part in folder.glob("*.data"):
        data = CoverageData(basename=str(part))
        data.read()
        for file in data.measured_files():
            lines = {
                line for line, names in data.contexts_by_lineno(file).items() if phase in names
            }
            if lines & _in_functions(Path(file)):
                found.add(str(Path(file).relative_to(REPOSITORY)))
    return found


def _in_functions(file: Path) -> set[int]:
    """The lines of the bodies of functions."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return inside


def _record(folder: Path) -> None:
    recorder = coverage.Coverage(
        data_file=str(folder / f"{os.getpid()}.data"),
        source=[str(REPOSITORY / "services")],
        config_file=False,
        concurrency=["thread"],
    )
    recorder.start()
    ended = threading.Event()

    def follow() -> None:
        last = ""
        while not ended.wait(POLL_SECONDS):
            named = (folder / PHASE).read_text() if (folder / PHASE).exists() else ""
            if named not in ("", last):
                recorder.switch_context(named)
                recorder.save()
                (folder / f"{os.getpid()}.{named}").touch()
                last = named

    threading.Thread(target=follow, daemon=True).start()

    def finish() -> None:
        ended.set()
        recorder.stop()
        recorder.save()

    atexit.register(finish)


if __name__ == "__main__":
    _, folder, _python, _m, *program = sys.argv
    _record(Path(folder))
    sys.argv = program
    runpy.run_module(program[0], run_name="__main__", alter_sys=True)
