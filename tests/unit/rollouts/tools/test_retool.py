"""ReTool prints the value of the last expression."""

import ast
import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rollouts.tools.retool import LONGEST_PARSED, runnable


def printed(code: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(runnable(code), "<test>", "exec"), {})
    return output.getvalue()


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("1 + 1", "2\n"),
        ("x = 20\nx + 1", "21\n"),
        ("x = 20; x + 1;  # the answer", "21\n"),
        ("x = 20", ""),
        ("print(3)", "3\n"),
        ("import sys\nsys.stdout.write('a')", "a1\n"),
        ("[].append(1)", ""),
        ("(1 +\n 2)", "3\n"),
        ("1, 2", "(1, 2)\n"),
        ("*[1, 2], 3", "(1, 2, 3)\n"),
        ("for i in range(2):\n    i", ""),
        ("if True:\n    print('é')\n    5", "é\n"),
        ("'é' + 'ü' ; 'ö'  # ä", "ö\n"),
        ("'''two\nlines'''", "two\nlines\n"),
        ("x = 1\nx \\\n + 1", "2\n"),
        ("x = 1\r\nx + 1\r\n", "2\n"),
        ("(y := 5)", "5\n"),
        ("1 if 0 else 2", "2\n"),
        ("lambda: 3\n# a comment at the end", None),
        ("", ""),
        ("# nothing", ""),
    ],
)
def test_only_the_final_expression_is_printed(code: str, output: str | None) -> None:
    if output is None:
        assert printed(code).startswith("<function")
    else:
        assert printed(code) == output


@pytest.mark.parametrize(
    "code",
    [
        "1 +",
        "  indented",
        "def f(:",
        "print 'old'",
        "\0",
        "x = '\ud800'",
        "(" * 10_000,
        "-" * 60_000,
    ],
)
def test_invalid_python_is_left_unchanged(code: str) -> None:
    assert runnable(code) == code


def test_long_code_is_left_unchanged() -> None:
    code = "x = 1\n" * LONGEST_PARSED + "x"

    assert runnable(code) == code


@pytest.mark.parametrize(
    "text",
    [
        "Let me see.\n```python\nx = 2\nx * 3\n```\nThat is all.\n```python\n1/0\n```",
        "```py\nx = 2\nx * 3```",
        "```python\n    x = 2\n    x * 3\n```",
        "```python\nx = 2\nx * 3",
    ],
)
def test_the_first_fenced_block_is_used(text: str) -> None:
    assert printed(text) == "6\n"


EXPRESSIONS = st.sampled_from(
    [
        "x",
        "(x)",
        "x, x",
        "f'{x} é'",
        "'''a\nb'''",
        "[\n x,\n]",
        "x if x else x",
        "not x",
        "(x := 2)",
    ]
)
STATEMENTS = st.sampled_from(["x = 1", "é = 'ü'", "x += 1", "pass", "'text'", "del x; x = 3"])


@given(
    before=st.lists(STATEMENTS, max_size=4),
    between=st.sampled_from(["\n", ";", "  ;  ", "\r\n", "\n\n", " # é\n", "\n\f"]),
    last=EXPRESSIONS,
    after=st.sampled_from(["", "\n", ";", " # note", "  \n\n# end", "\r\n"]),
)
def test_the_final_value_is_printed_wherever_the_expression_stands(
    before: list[str], between: str, last: str, after: str
) -> None:
    code = between.join(["x = 7", *before, last]) + after
    value = io.StringIO()
    scope: dict[str, object] = {}
    tree = ast.parse(code.replace("\r\n", "\n"))
    expression = tree.body.pop()
    assert isinstance(expression, ast.Expr)
    exec(compile(tree, "<test>", "exec"), scope)
    print(eval(compile(ast.Expression(expression.value), "<test>", "eval"), scope), file=value)

    assert printed(code) == value.getvalue()


@given(st.text(alphabet="ab1=()[]{}'\"\\\n\r;:#, .+é\u2028\f\t", max_size=60))
def test_valid_python_stays_valid(code: str) -> None:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return

    ast.parse(runnable(code))
