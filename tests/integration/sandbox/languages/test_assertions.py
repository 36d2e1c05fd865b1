"""Failed assertions fail the program, and the libraries that test suites expect are installed."""

from pathlib import Path

import pytest

from services.sandbox.languages.catalog import LANGUAGES, ToolchainMissing, find_toolchain
from tests.support.sandbox import Sandbox

pytestmark = pytest.mark.runtime

FAILING = {
    "python": "print('before', flush=True)\nassert 1 == 2",
    "cpp": '#include <cassert>\n#include <iostream>\nint main() { std::cout << "before" '
    "<< std::endl; assert(1 == 2); }",
    "rust": 'fn main() { println!("before"); debug_assert!(1 == 2); }',
    "java": "class Main { public static void main(String[] a) { "
    'System.out.println("before"); assert 1 == 2; } }',
    "scala": 'object Main extends App { println("before"); assert(1 == 2) }',
    "kotlin_script": 'println("before")\nassert(1 == 2)',
    "csharp": "using System.Diagnostics;\nclass Program { static void Main() { "
    'Console.WriteLine("before"); Debug.Assert(1 == 2, "wrong"); Console.WriteLine("after"); } }',
    "swift": 'print("before")\nassert(1 == 2)',
    "D_ut": 'import std.stdio;\nunittest { writeln("before"); stdout.flush(); assert(1 == 2); }',
    "php": '<?php\necho "before\\n";\nassert(1 === 2);',
    "lua": 'print("before")\nassert(1 == 2)',
    "julia": 'println("before")\n@assert 1 == 2',
    "R": 'cat("before\\n")\nstopifnot(1 == 2)',
    "nodejs": "console.log('before'); require('assert').strictEqual(1, 2);",
}

EXPECTED = {
    "csharp": "class Program { static void Main() { "
    'Console.WriteLine(string.Join(",", new List<int> {3, 1}.OrderBy(n => n))); } }',
    "java": "import org.javatuples.Pair;\nclass Main { public static void main(String[] a) { "
    'System.out.println(Pair.with(1, 3).getValue0() + ",3"); } }',
    "perl": 'use Data::Compare;\nprint Compare([1], [1]), ",3\\n";',
}

TESTIFY = """\
package main

import (
    "testing"

    "github.com/stretchr/testify/assert"
)

func TestSum(t *testing.T) { assert.Equal(t, 3, 1+2) }
"""


LIBRARIES = {
    "java": "/usr/share/java/javatuples.jar",
    "perl": "/usr/share/perl5/Data/Compare.pm",
    "go_test": "/usr/share/gocode/src/github.com/stretchr/testify",
}


def require(language: str) -> None:
    try:
        find_toolchain(LANGUAGES[language])
    except ToolchainMissing as missing:
        pytest.skip(missing.message)


def require_library(language: str) -> None:
    if language in LIBRARIES and not Path(LIBRARIES[language]).exists():
        pytest.skip(f"{LIBRARIES[language]} is not installed")


@pytest.mark.parametrize("language", FAILING)
def test_a_failed_assertion_fails_the_program(sandbox: Sandbox, language: str) -> None:
    require(language)
    answer = sandbox.run(FAILING[language], language)

    assert answer["status"] == "Failed", answer
    assert "before" in answer["run_result"]["stdout"]
    assert "after" not in answer["run_result"]["stdout"]


@pytest.mark.parametrize("language", EXPECTED)
def test_expected_libraries_and_usings_are_there(sandbox: Sandbox, language: str) -> None:
    require(language)
    require_library(language)
    assert sandbox.output(EXPECTED[language], language) == "1,3\n"


def test_go_tests_can_use_testify(sandbox: Sandbox) -> None:
    require("go_test")
    require_library("go_test")
    assert sandbox.run(TESTIFY, "go_test")["status"] == "Success"
