"""What a program can see of the calls below it."""

import inspect
import subprocess
import sys
import textwrap
import traceback

import pytest

from services.sandbox.guest import stack
from tests.support.processes import REPOSITORY


@stack.hide_frames
def hidden(function):  # type: ignore[no-untyped-def]  # any function
    return function()


def test_hidden_functions_are_not_on_the_stack() -> None:
    names = hidden(lambda: [frame.function for frame in inspect.stack()])

    assert names[:2] == ["<lambda>", "test_hidden_functions_are_not_on_the_stack"]


def test_hidden_functions_are_not_in_tracebacks() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        hidden(lambda: 1 / 0)

    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames == ["test_hidden_functions_are_not_in_tracebacks", "<lambda>"]


def test_hidden_functions_still_work() -> None:
    @stack.hide_frames
    def many(first: int, *others: int, factor: int = 2, **names: int) -> tuple[object, ...]:
        total = 0
        for number in (first, *others):
            try:
                total += number * factor // number
            except ZeroDivisionError:
                total -= 1
        with open("/dev/null") as file:
            return total, sorted(names), file.read(), outer

    outer = "closed over"

    assert many(1, 0, 3, factor=5, x=1) == (9, ["x"], "", "closed over")


def run(source: str) -> subprocess.CompletedProcess[str]:
    """Run a first module of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_first_function_has_no_frames_below_it() -> None:
    ended = run("""
        import sys
        from services.sandbox.guest import stack

        @stack.hide_frames
        def main():
            print(sys.excepthook is sys.__excepthook__, hasattr(sys, "last_value"))
            exec("import inspect; print(inspect.stack()[-1].frame.f_back)", {})
            sys.exit(3)

        stack.begin(main)
    """)

    assert (ended.returncode, ended.stderr) == (3, "")
    assert ended.stdout == "True False\nNone\n"


def test_recursion_depth_excludes_the_sandboxs_frames() -> None:
    ended = run("""
        import sys
        from services.sandbox.guest import stack

        def deepest(n):
            try:
                return deepest(n + 1)
            except RecursionError:
                return n

        def after(depth):
            if depth:
                return after(depth - 1)
            stack.forget_depth(spare=0)
            return deepest(0)

        stack.find_depth()
        at_top = deepest(0)
        print(after(0) - at_top, after(0) - after(300), sys.getrecursionlimit())
    """)

    assert ended.stdout == "1 0 1000\n", ended.stderr
