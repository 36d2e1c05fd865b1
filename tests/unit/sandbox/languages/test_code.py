"""The names needed from a source are found in typical model-written programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.languages.code import (
    go_names,
    java_names,
    python_imports,
    scala_names,
    verilog_names,
    with_implicit_usings,
    with_php_tag,
)


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import numpy", {"numpy"}),
        ("import numpy as np, pandas as pd", {"numpy", "pandas"}),
        ("import scipy.stats", {"scipy"}),
        ("from sympy.abc import x", {"sympy"}),
        (
            "try:\n    import numpy\nexcept ImportError:\n\tfrom pandas import *",
            {"numpy", "pandas"},
        ),
        ("x = 1; import sympy", {"sympy"}),
        ("import os # import numpy", {"os"}),
        ("from . import numpy", set()),
        ("important = 1\nfromage = 2\nprint('import')", set()),
        ("import numpy\r\nimport pandas\r\n", {"numpy", "pandas"}),
        ("", set()),
    ],
)
def test_python_imports_are_found(code: str, modules: set[str]) -> None:
    assert python_imports(code.encode()) == modules


@pytest.mark.parametrize(
    ("code", "file", "main"),
    [
        ("public class Main { public static void main(String[] a) {} }", "Main", "Main"),
        ("class Main { public static void main(String[] a) {} }", "Main", "Main"),
        (
            "public class Solution { static public void main(String[] a) {} }",
            "Solution",
            "Solution",
        ),
        (
            "class Helper {}\nclass Runner { public static void main(String... a) {} }",
            "Runner",
            "Runner",
        ),
        (
            "public interface Shape {}\nclass Main { public static void main(String[] a) {} }",
            "Shape",
            "Main",
        ),
        (
            "public class Main { public static class N {} public static void main(String[] a) {} }",
            "Main",
            "Main",
        ),
        (
            "package a.b;\npublic final class App { public static void main(String[] a) {} }",
            "App",
            "a.b.App",
        ),
        (
            "// public class Wrong {}\n/* public class Worse { */\npublic record Point(int x) {"
            " String s = \"} public class Bad {\"; char c = '{';"
            " public static void main(String[] a) {} }",
            "Point",
            "Point",
        ),
        ("public enum E { A; public static void main(String[] a) {} }", "E", "E"),
        ("@RunWith(JUnit4.class) public class CalcTest { }", "CalcTest", "CalcTest"),
        ("", "Main", "Main"),
        ("this is not Java", "Main", "Main"),
    ],
)
def test_java_file_and_main_class(code: str, file: str, main: str) -> None:
    assert java_names(code.encode()) == {"file": file, "main": main}


@pytest.mark.parametrize(
    ("code", "main"),
    [
        ("object Main { def main(args: Array[String]): Unit = {} }", "Main"),
        ("object Solution extends App { }", "Solution"),
        ("object Helper { def f = 1 }\nobject Runner { def main(a: Array[String]) {} }", "Runner"),
        ("case class P(x: Int)\nobject P { }\nobject Go extends scala.App { }", "Go"),
        ("package a.b\nobject Main extends App", "a.b.Main"),
        ("// object Wrong extends App\nobject Right extends App", "Right"),
        ("object Only { }", "Only"),
        ("@main def start() = println(1)", "start"),
        ("", "Main"),
    ],
)
def test_scala_main_object(code: str, main: str) -> None:
    assert scala_names(code.encode()) == {"main": main}


@pytest.mark.parametrize(
    ("code", "top"),
    [
        ("module tb;\nendmodule", {"top": "tb"}),
        ("module tb (input clk); endmodule", {"top": "tb"}),
        ("module tb_adder; endmodule", {}),
        ("// module tb;\nmodule test; endmodule", {}),
    ],
)
def test_verilog_test_bench(code: str, top: dict[str, str]) -> None:
    assert verilog_names(code.encode()) == top


@pytest.mark.parametrize("code", [b"<?php echo 1;", b"<h1><?= 1 ?></h1>", b"\n<?PHP echo 1;"])
def test_php_with_an_open_tag_is_unchanged(code: bytes) -> None:
    assert with_php_tag(code) == code


def test_php_gets_a_missing_open_tag() -> None:
    assert with_php_tag(b"echo 1;") == b"<?php\necho 1;"


WORDS = '/* */ // " """ \' \\ { } ; public class object void main( import from package A \0'
PIECES = st.sampled_from([b"\n", b" ", b"\xff", *(word.encode() for word in WORDS.split(" "))])


@given(code=st.lists(PIECES, max_size=60).map(b"".join) | st.binary(max_size=200))
def test_names_are_extracted_from_any_bytes(code: bytes) -> None:
    names = java_names(code)
    assert names["file"]
    assert names["main"]
    assert scala_names(code)["main"]
    python_imports(code)
    verilog_names(code)
    assert with_php_tag(code).endswith(code)


@pytest.mark.parametrize(
    "piece", [b"/*", b"/* *", b'"', b'"""', b"'", b"import ", b" ", b"public "]
)
def test_hostile_sources_parse_in_linear_time(piece: bytes) -> None:
    code = piece * (1_000_000 // len(piece))  # squared, this would outlast the test's time limit
    java_names(code)
    scala_names(code)
    verilog_names(code)
    python_imports(code)


@pytest.mark.parametrize(
    ("code", "head"),
    [
        (b"class A {}", b""),
        (b"\xef\xbb\xbf// text\n#define DEBUG\n#undef X\nclass A {}", b"#undef X\n"),
        (b"/* a * b */ extern alias X;\nusing System;", b"extern alias X;\n"),
    ],
)
def test_implicit_usings_follow_what_must_come_first(code: bytes, head: bytes) -> None:
    extended = with_implicit_usings(code)
    at = extended.index(b"using System; ")
    assert extended[:at].endswith(head)
    assert extended.count(b"\n") == code.count(b"\n")
    assert extended.replace(extended[at : extended.rindex(b"; ") + 2], b"", 1) == code


TESTIFY = '"github.com/stretchr/testify/assert"'


@pytest.mark.parametrize(
    "imports",
    [
        f'import (\n\t"testing"\n\n\t{TESTIFY}\n)',
        f'import ("testing";{TESTIFY})',
        f'import("testing"; . {TESTIFY}); import "fmt"',
        f'import "testing"; import is {TESTIFY}',
        f"import /* for tests */ {TESTIFY.replace(chr(34), '`')}",
        'import "gopkg.in/yaml.v3"',
    ],
)
def test_go_with_foreign_imports_is_built_without_modules(imports: str) -> None:
    code = f"// A test.\npackage main\n{imports}\nfunc main() {{}}\n"
    assert go_names(code.encode()) == {"modules": "off"}
    assert go_names(b"\xef\xbb\xbf" + code.encode()) == {"modules": "off"}


@pytest.mark.parametrize(
    "code",
    [
        'import "fmt"',
        f'import ("fmt" // {TESTIFY}\n)',
        f'/* import\n{TESTIFY}\n*/\nimport "fmt"',
        f'import "fmt"\nvar names = []string{{\n{TESTIFY},\n}}',
        f'import "fmt"\nvar text = `\nimport {TESTIFY}\n`',
        f"import ({TESTIFY}",  # which does not compile
    ],
)
def test_go_is_built_with_modules_whatever_it_only_mentions(code: str) -> None:
    found = go_names(f"package main\n{code}\n".encode())
    assert found == {"modules": "on", "flags": "-mod=mod"}


SPACE = st.lists(
    st.sampled_from([" ", "\n", ";", "\r\n", f"// {TESTIFY}\n", f"/* {TESTIFY} **/"])
).map("".join)
IMPORT = st.tuples(st.sampled_from(["", ". ", "_ ", "x "]), st.sampled_from(["fmt", "a.b/c"]))


@given(st.lists(st.lists(IMPORT)), st.data())
def test_the_layout_of_go_imports_does_not_matter(
    groups: list[list[tuple[str, str]]], data: st.DataObject
) -> None:
    text = "package main\n"
    for group in groups:
        specs = "".join(f'{data.draw(SPACE)}{name}"{path}"' for name, path in group)
        text += f"import{data.draw(SPACE)}({specs}{data.draw(SPACE)}){data.draw(SPACE)}"
    foreign = any(path == "a.b/c" for group in groups for _, path in group)

    assert (go_names(text.encode())["modules"] == "off") is foreign
