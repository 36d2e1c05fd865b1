"""Programs that judge the outputs of other programs.

A checker reads three files, whose names are its arguments. What runs in its place writes these
files from standard input (a line with their lengths in bytes, then their contents) and starts it.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.contracts.sandbox.cases import CheckedFile, Checker, CheckerVerdict
from services.contracts.sandbox.programs import Language
from services.sandbox.execution import ExitReason, Outcome

WRONG = frozenset({1, 2, 4, 8})
"""Exit statuses of testlib: wrong answer, wrong presentation, surplus output, output too short."""
FAILED = 3
"""Exit status of testlib, and of the programs below, when the checker itself failed."""
MESSAGE_CHARACTERS = 500


@dataclass(frozen=True)
class Judgment:
    """The share of a case that a checker gave, or why it gave none."""

    score: float | None
    message: str = ""


def with_files(checker: Checker) -> Checker:
    """The checker as a program that takes its files from standard input."""
    code = _STARTED[checker.language](checker.code, checker.arguments)
    return checker.model_copy(update={"code": code})


def checker_input(given: bytes, printed: bytes, expected: bytes) -> bytes:
    """What `with_files` reads."""
    contents = (given, printed, expected)
    return b" ".join(str(len(each)).encode() for each in contents) + b"\n" + b"".join(contents)


def judgment(outcome: Outcome, verdict: CheckerVerdict) -> Judgment:
    """Read the verdict of a checker's run."""
    if outcome.exit_reason is not ExitReason.EXITED:
        return _failed(outcome, f"it was ended: {outcome.exit_reason.value}")
    code = outcome.return_code
    if verdict is CheckerVerdict.EXIT_STATUS and (code == 0 or code in WRONG):
        return Judgment(float(code == 0))
    if code != 0:
        return _failed(outcome, f"it exited with {code}")
    if verdict is CheckerVerdict.EXIT_STATUS:
        return Judgment(1.0)
    words = outcome.stdout.split()
    try:
        score = float(words[-1]) if words and not outcome.stdout_cut else math.nan
    except ValueError:
        score = math.nan
    if not 0.0 <= score <= 1.0:
        return _failed(outcome, "the last word that it printed is not a number from 0 to 1")
    return Judgment(score)


def _failed(outcome: Outcome, what: str) -> Judgment:
    said = outcome.stderr.decode(errors="replace").strip()[-MESSAGE_CHARACTERS:]
    return Judgment(None, f"the checker failed: {what}" + (f": {said}" if said else ""))


def _python(code: str, arguments: Sequence[CheckedFile]) -> str:
    names = [each.value for each in arguments]
    return _PYTHON.format(code=code, names=names, files=_FILES, failed=FAILED)


def _cpp(code: str, arguments: Sequence[CheckedFile]) -> str:
    names = ", ".join(f'const_cast<char*>("{each.value}")' for each in arguments)
    files = ", ".join(f'"{name}"' for name in _FILES)
    return _CPP.format(names=names, files=files, failed=FAILED) + _ALL_HEADERS.sub("", code)


_STARTED: Mapping[Language, Callable[[str, Sequence[CheckedFile]], str]] = {
    Language.PYTHON: _python,
    Language.CPP: _cpp,
}
_FILES = tuple(each.value for each in (CheckedFile.INPUT, CheckedFile.OUTPUT, CheckedFile.ANSWER))
# An uncaught exception would exit with 1, which is the verdict of a wrong answer.
_PYTHON = """\
import os, runpy, sys, traceback
sizes = [int(size) for size in sys.stdin.buffer.readline().split()]
for name, size in zip({files!r}, sizes):
    with open(name, "wb") as file:
        file.write(sys.stdin.buffer.read(size))
with open("checker.py", "w", encoding="utf-8") as file:
    file.write({code!r})
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
sys.argv = ["checker.py", *{names!r}]
try:
    runpy.run_path("checker.py", run_name="__main__")
except SystemExit:
    raise
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit({failed})
"""
# A header of all headers is compiled already, and can be included first only, and once. The
# constructor runs before the checker's own objects exist, and begins the program with arguments.
_ALL_HEADERS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<bits/stdc\+\+\.h>", re.MULTILINE)
_CPP = """\
#include <bits/stdc++.h>
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void temper_begin(int argc, char** argv) {{
  if (argc > 1) return;
  const char* files[] = {{{files}}};
  unsigned long sizes[3];
  if (scanf("%lu %lu %lu", sizes, sizes + 1, sizes + 2) != 3 || getchar() != '\\n')
    _exit({failed});
  for (int each = 0; each < 3; ++each) {{
    FILE* file = fopen(files[each], "wb");
    if (!file) _exit({failed});
    for (unsigned long left = sizes[each]; left; --left) putc(getchar(), file);
    fclose(file);
  }}
  dup2(open("/dev/null", O_RDONLY), 0);
  char* arguments[] = {{argv[0], {names}, nullptr}};
  execv("/proc/self/exe", arguments);
  execv(argv[0], arguments);
  _exit({failed});
}}
#line 1 "checker.cpp"
"""
