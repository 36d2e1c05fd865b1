"""Programs that end with or print an error."""

from tests.integration.sandbox.python_programs.program import Program

PROGRAMS = {
    "traceback with carets": Program("""
        def divide(a, b):
            return (a + 1) / (b - b)

        print("before")
        values = [divide(1, 2) for _ in range(1)]
    """),
    "chained exceptions": Program("""
        class Wrong(Exception):
            pass

        def implicit():
            try:
                {}["missing"]
            except KeyError:
                raise Wrong("while handling")

        try:
            implicit()
        except Wrong as error:
            raise RuntimeError("explicit", 1) from error
    """),
    "suppressed context and a note": Program("""
        try:
            int("x")
        except ValueError:
            error = OSError(2, "No such file", "name")
            error.add_note("a note\\nof two lines")
            raise error from None
    """),
    "exception without context": Program("""
        import sys
        print(sys.exc_info())
        try:
            raise ValueError(1)
        except ValueError as error:
            print(error.__context__, error.__cause__, error.__traceback__.tb_frame.f_back)
    """),
    "exception group": Program("""
        def fail(number):
            raise ValueError(number)

        errors = []
        for number in range(2):
            try:
                fail(number)
            except ValueError as error:
                errors.append(error)
        raise ExceptionGroup("several", [*errors, ExceptionGroup("inner", [TypeError("t")])])
    """),
    "caught and printed": Program("""
        import traceback

        def inner():
            raise LookupError("here")

        try:
            inner()
        except LookupError:
            traceback.print_exc()
            print(traceback.format_exc())
    """),
    "syntax error": Program("x = 1\nif x == 1\n    print(x)\n"),
    "unclosed bracket": Program("print((1, 2)\n\nx = 3\n"),
    "old print statement": Program("print 'hello'\n"),
    "unterminated text": Program('x = "abc\n'),
    "unterminated triple quotes": Program('x = """abc\n\nprint(1)\n'),
    "unexpected indent": Program("x = 1\n  y = 2\n"),
    "missing indent": Program("def f():\nreturn 1\n"),
    "mixed tabs and spaces": Program("if True:\n\tx = 1\n        y = 2\n"),
    "return outside of a function": Program("return 5\n"),
    "await outside of a function": Program("import asyncio\nawait asyncio.sleep(0)\n"),
    "wrong assignment": Program("f() = 3\n"),
    "too many nested brackets": Program("(" * 300 + ")" * 300),
    "syntax warning": Program("x = 5\nif x is 5:\n    print('\\d')\n"),
    "syntax warning before an error": Program("x = 5\nprint(x is 5)\ndef f(:\n"),
    "syntax error in an imported module": Program(
        "import broken\n", files={"broken.py": b"def f(:\n    pass\n"}
    ),
    "error in an imported module": Program(
        "import helper\nhelper.first()\n",
        files={
            "helper.py": b"def first():\n    second()\n\ndef second():\n    raise Exception(1)\n"
        },
    ),
    "encoding cookie": Program("# -*- coding: latin-1 -*-\nprint('\xe9\xdf')\n".encode("latin-1")),
    "wrong bytes without a cookie": Program(b"x = 1\nprint('\xff\xfe')\n"),
    "wrong bytes in a comment": Program(b"x = 1\n# \xff\nprint(x)\n"),
    "unknown encoding": Program("# coding: nonsense\nprint(1)\n"),
    "cookie that contradicts the mark": Program(b"\xef\xbb\xbf# coding: latin-1\nprint(1)\n"),
    "byte order mark": Program(b"\xef\xbb\xbfprint('marked')\n"),
    "null bytes": Program(b"print(1)\n\x00\nprint(2)\n"),
    "carriage returns": Program(b"def f():\r\n    return '''a\r\nb'''\r\nprint(repr(f()))\r\n"),
    "no newline at the end": Program(b"print(1)\nif True:\n    print(2)"),
    "empty file": Program(b""),
    "form feed and continuation": Program(b"\x0cx = 1 + \\\n  2\nprint(x)\n"),
    "recursion without end": Program("""
        def down(n):
            return down(n + 1)

        down(0)
    """),
    "how deep recursion goes": Program("""
        import sys

        def down(n):
            try:
                return down(n + 1)
            except RecursionError:
                return n

        print(sys.getrecursionlimit(), down(0))
        sys.setrecursionlimit(5000)
        print(sys.getrecursionlimit(), down(0))
        print(len(repr(eval("[" * 90 + "]" * 90))))
    """),
    "recursion in another function": Program("""
        import json
        nested = []
        for _ in range(100000):
            nested = [nested]
        json.dumps(nested)
    """),
    "own excepthook": Program("""
        import sys

        def hook(kind, error, trace):
            print("hook", kind.__name__, error, trace.tb_lineno, sys.exc_info())

        sys.excepthook = hook
        raise ValueError("seen by the hook")
    """),
    "excepthook that fails": Program("""
        import sys

        def hook(kind, error, trace):
            raise RuntimeError("the hook fails")

        sys.excepthook = hook
        raise ValueError("original")
    """),
    "excepthook that exits": Program("""
        import sys
        sys.excepthook = lambda *_: sys.exit(7)
        raise ValueError("original")
    """),
    "excepthook that is not a function": Program("""
        import sys
        sys.excepthook = None
        raise ValueError("original")
    """),
    "excepthook deleted": Program("""
        import sys
        del sys.excepthook
        raise ValueError("original")
    """),
    "unraisable": Program("""
        class Fails:
            def __del__(self):
                raise ValueError("in __del__")

        Fails()
        print("goes on")
    """),
    "own unraisablehook": Program("""
        import sys

        class Fails:
            def __del__(self):
                raise ValueError("in __del__")

        sys.unraisablehook = lambda args: print("hook", args.exc_value, args.err_msg)
        Fails()
        kept = Fails()
    """),
    "error whose text fails": Program("""
        class Odd(Exception):
            def __str__(self):
                raise TypeError("no text")

        raise Odd
    """),
    "error of a class in a class": Program("""
        class Outer:
            class Inner(Exception):
                pass

        raise Outer.Inner("x")
    """),
    "suggested name": Program("""
        import math
        color = 1
        try:
            print(math.sqr(4))
        except AttributeError as error:
            print(error)
        print(color)
    """),
    "lone surrogates in an error": Program('raise ValueError("\\udc80 \\ud800 \\x00 \\u00e9")\n'),
    "error in code without a file": Program("""
        exec(compile("def f():\\n    1/0\\n", "<made>", "exec"))
        f()
    """),
    "error in a generator and a class": Program("""
        def numbers():
            yield 1
            raise KeyError("two")

        class Broken:
            value = list(numbers())
    """),
    "assertion": Program("assert 1 == 2, {'left': 1}\n"),
    "missing module": Program("import surely_not_there.deeper\n"),
    "stopped iteration": Program("next(iter([]))\n"),
}
