"""Runs small programs of the corpus in this process, and compares results as the sandbox does.

The programs are the benchmark's own: they end, and touch nothing.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar
from unittest.mock import patch

from services.contracts.base import JsonObject
from services.contracts.sandbox.programs import Language
from services.rewards.answers.programs import last_program
from services.rewards.code_tests import read_tests
from services.sandbox.runs.comparison import matches

Result = TypeVar("Result")


class Crashed(Exception):
    """A program raised an exception."""


def passes(answer: str, tests: str) -> bool:
    """Whether the program in an answer passes all tests, as JSON, of a row."""
    read = read_tests(tests, Language.PYTHON)
    program = last_program([answer], Language.PYTHON, defines=read.is_wrapped, names=read.names)
    if program is None:
        return False
    try:
        return all(
            any(
                matches(_told(program, case.stdin or "", wrapped=read.is_wrapped), each, read.match)
                for each in (case.expected_output or "", *case.alternatives)
            )
            for case in read.cases
        )
    except Crashed:
        return False


def called(program: str, name: str, arguments: list[Any]) -> Any:
    """What a function of a program returns; raises `Crashed`."""
    names: JsonObject = {"__name__": "solution"}
    _guarded(lambda: _run(program, names))
    return _guarded(lambda: names[name](*arguments))


def printed(program: str, given: str) -> str:
    """What a program prints; raises `Crashed`."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), patch.object(sys, "stdin", io.StringIO(given)):
        _guarded(lambda: _run(program, {"__name__": "__main__"}))
    return out.getvalue()


def _told(program: str, given: str, *, wrapped: bool) -> bytes:
    if not wrapped:
        return printed(program, given).encode()
    call = json.loads(given)["call"]
    value = called(program, call["name"], call["arguments"])
    return _guarded(lambda: json.dumps(value)).encode()


def _run(program: str, names: JsonObject) -> None:
    exec(compile(program, "program", "exec"), names)


def _guarded(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise Crashed(repr(error)) from error
