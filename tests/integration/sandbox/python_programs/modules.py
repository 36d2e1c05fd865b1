"""Modules that are run by ``python -m``, and tests."""

from services.sandbox.execution import PythonModule
from tests.integration.sandbox.python_programs.program import Program

TESTS = b"""
import sys

import pytest
from helper import double


@pytest.fixture
def four():
    print("set up")
    return 4


def test_passes(four, tmp_path, capsys):
    print("captured")
    assert capsys.readouterr().out == "captured\\n"
    assert double(2) == four


def test_fails(four):
    print("before")
    print("error", file=sys.stderr)
    assert double(3) == four


@pytest.mark.parametrize("number", [1, 2])
def test_raises(number):
    with pytest.raises(ZeroDivisionError):
        number / 0


@pytest.mark.skip(reason="not now")
def test_skipped():
    pass


def test_error(missing):
    pass
"""
HELPER = b"def double(number):\n    return 2 * number\n"

PROGRAMS = {
    "module": Program(
        "",
        files={
            "tool.py": b"import sys\nprint(__name__, sys.argv, sys.path[0], __spec__.name)\n1/0"
        },
        command=PythonModule("tool", ("a", "b")),
    ),
    "recursion in a module": Program(
        "",
        files={"deep.py": b"def f(n):\n    return f(n + 1)\nf(0)\n"},
        command=PythonModule("deep"),
    ),
    "package as a module": Program(
        "",
        files={
            "tool/__init__.py": b"print('package')\n",
            "tool/__main__.py": (
                b"import sys\nprint(__package__, sys.orig_argv[1:])\nprint(list(globals()))\n"
            ),
        },
        command=PythonModule("tool"),
    ),
    "module that is not there": Program("", command=PythonModule("absent.module")),
    "module of the standard library": Program(
        "", files={"data.json": b'{"a": [1]}'}, command=PythonModule("json.tool", ("data.json",))
    ),
    "unittest as a module": Program(
        "",
        files={
            "test_x.py": b"import unittest\nclass T(unittest.TestCase):\n def test(self): 1/0\n"
        },
        command=PythonModule("unittest"),
    ),
    "pytest": Program(
        "",
        files={"test_numbers.py": TESTS, "helper.py": HELPER},
        command=PythonModule("pytest", ("-p", "no:cacheprovider", "test_numbers.py")),
    ),
    "pytest in a program": Program(
        "import pytest, sys\nsys.exit(pytest.main(['-q', 'test_numbers.py']))\n",
        files={"test_numbers.py": TESTS, "helper.py": HELPER},
    ),
    "pytest with a broken file": Program(
        "",
        files={"test_broken.py": b"def test(:\n", "conftest.py": b"print('conftest')\n"},
        command=PythonModule("pytest"),
    ),
}
