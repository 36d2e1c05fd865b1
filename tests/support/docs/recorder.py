"""Runs a module as a program, and records which of our files it executes in which phase of a test.

``PYTHON -m tests.support.docs.recorder FOLDER PYTHON -m MODULE ...``: what `executed.recording`
puts before a command. Only the standard library is imported, because every runtime can be recorded.
"""

import atexit
import os
import runpy
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
POLL_SECONDS = 0.05
PHASE = "phase"
"""The file of the folder that names the phase of the test."""


class Recorder:
    """Notes the code of every function that is called, and by phases writes its files down."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._called: set[CodeType] = set()
        self._phase = self._named()
        self._ended = threading.Event()

    def start(self) -> None:
        """Record this process until it exits, all of its threads included."""
        threading.Thread(target=self._follow, daemon=True).start()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        atexit.register(self._finish)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._called.add(frame.f_code)

    def _follow(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            if (named := self._named()) != self._phase:
                self._write()
                self._called, self._phase = set(), named
                (self._folder / f"{self._pid}.{named}").touch()

    def _named(self) -> str:
        place = self._folder / PHASE
        return place.read_text() if place.exists() else ""

    def _finish(self) -> None:
        sys.setprofile(None)
        self._ended.set()
        if os.getpid() == self._pid:  # not a fork of the recorded process
            self._write()

    def _write(self) -> None:
        files = {Path(code.co_filename) for code in list(self._called) if _is_function(code)}
        ours = sorted(str(file) for file in files if file.is_relative_to(REPOSITORY / "services"))
        (self._folder / f"{self._pid}.{self._phase}.files").write_text("\n".join(ours))


def _is_function(code: CodeType) -> bool:
    """Whether a code object is of a function: not of a module, a class or an expression."""
    return bool(code.co_flags & CO_OPTIMIZED) and not code.co_name.startswith("<")


if __name__ == "__main__":
    _, recorded, _python, _m, *program = sys.argv
    sys.argv = program
    Recorder(Path(recorded)).start()
    runpy.run_module(program[0], run_name="__main__", alter_sys=True)
