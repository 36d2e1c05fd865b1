"""What a program sees of its environment."""

from services.sandbox.execution import PythonFile
from tests.integration.sandbox.python_programs.program import Program

HELPER = b"def double(number):\n    return 2 * number\n"

PROGRAMS = {
    "names": Program("""
        print(list(globals()))
        print(__name__, __doc__, __package__, __spec__, __annotations__, __file__, __cached__)
        print(type(__loader__), __loader__.name, __loader__.path, __loader__.is_package("__main__"))
        print(__builtins__, __loader__.get_source("__main__")[:6])
        x: int = 3
        print(__annotations__, dir(), vars() is globals())
        if __name__ == "__main__":
            print("main")
    """),
    "docstring": Program('"""What it does."""\nprint(__doc__)\n'),
    "main module": Program("""
        import sys
        import __main__
        value = 5
        print(__main__, __main__.value, sys.modules["__main__"] is __main__)
        print([name for name in sys.modules if "services" in name or "sandbox" in name])
        print(__import__("importlib").import_module("__main__") is __main__)
    """),
    "arguments": Program(
        "import sys\nprint(sys.argv, sys.orig_argv[1:], __file__)\n",
        command=PythonFile("main.py", ("a", "--b", "c d", "")),
    ),
    "path": Program("""
        import sys
        print(sys.path, sys.meta_path, sys.path_hooks)
        print(sys.executable, sys.prefix, sys.base_prefix, sys.flags, sys.warnoptions)
        print(sys._xoptions, sys.implementation.name, sys.dont_write_bytecode)
        print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.pycache_prefix)
        print(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getprofile())
        print(sys.gettrace(), sys.get_asyncgen_hooks(), sys.displayhook, sys.excepthook)
        print(hasattr(sys, "last_value"), hasattr(sys, "ps1"), sys.unraisablehook)
    """),
    "script in a folder": Program(
        "",
        files={
            "scripts/run.py": (
                b"import sys, near\nprint(sys.path[0], __file__, sys.argv, near)\n1 / 0\n"
            ),
            "scripts/near.py": b"",
        },
        command=PythonFile("scripts/run.py"),
    ),
    "file that is not there": Program("", command=PythonFile("absent.py", ("x",))),
    "sibling": Program(
        """
        import helper, package.inner, os
        from package import inner
        print(helper.double(4), helper.__file__, helper.__name__, inner.__package__)
        print(sorted(os.listdir()), sorted(os.listdir("__pycache__")))
        """,
        files={
            "helper.py": HELPER,
            "package/__init__.py": b"",
            "package/inner.py": b"from . import __name__\n",
        },
    ),
    "sibling of a standard module's name": Program(
        "import queue, calendar\nprint(queue.MINE, queue.__file__, calendar.NUMBER)\n",
        files={"queue.py": b"MINE = 'mine'\n", "calendar/__init__.py": b"NUMBER = 7\n"},
    ),
    "import of itself": Program(
        "import main\nprint(__name__, main.__name__, main is __import__('__main__'))\n"
    ),
    "relative import": Program("from . import helper\n", files={"helper.py": HELPER}),
    "environment": Program("""
        import os
        for name in sorted(os.environ):
            print(name, os.environ[name])
        print(os.environb[b"HOME"], os.path.expanduser("~"), os.getcwd())
    """),
    "child's environment": Program("""
        import subprocess, sys
        subprocess.run(["env"])
        subprocess.run([sys.executable, "-c", "import sys; print(sys.path, sys.flags)"])
    """),
    "place": Program(
        """
        import os, signal, tempfile, resource
        print(os.getcwd(), os.listdir(), oct(os.umask(0)), tempfile.gettempdir())
        for number in signal.valid_signals():
            print(number, signal.getsignal(number), end=" ")
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))
        print(resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_AS))
        print(signal.set_wakeup_fd(-1), os.getpriority(os.PRIO_PROCESS, 0))
        """,
        difference_in_container="files are closed to others, who may look into shared memory",
    ),
    "signals of a child": Program(
        """
        import subprocess
        lines = open("/proc/self/status").read().splitlines()
        print([line for line in lines if line.startswith("Sig")][1:])
        subprocess.run("grep ^Sig[BIC] /proc/self/status", shell=True)
        """,
        difference_in_container="in /proc a program sees itself alone, not its children",
    ),
    "descriptors": Program("import os\nprint(sorted(os.listdir('/proc/self/fd')))\n"),
    "collector": Program("""
        import gc, weakref
        print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.garbage, gc.callbacks)

        class Cycle:
            pass

        one = Cycle()
        one.itself = one
        gone = weakref.ref(one)
        del one
        print(gone() is None, gc.collect() > 0, gone() is None)
    """),
    "main thread": Program("""
        import os, threading
        main = threading.main_thread()
        print(main.name, main is threading.current_thread(), len(threading.enumerate()))
        print(main.native_id == os.getpid() == threading.get_native_id(), threading.active_count())
        print(main.ident == threading.get_ident(), main.daemon, threading.stack_size())
        print(threading.gettrace(), threading.excepthook)
    """),
    "locale": Program("""
        import locale, sys, time
        print(locale.getlocale(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL))
        print(sys.getdefaultencoding(), open("main.py").encoding, time.tzname)
    """),
    "warnings": Program("""
        import warnings
        print(warnings.filters)
        warnings.warn("plain")
        warnings.warn("old", DeprecationWarning)
        warnings.warn("pending", PendingDeprecationWarning)

        def deep():
            warnings.warn("of the caller", stacklevel=2)
            warnings.warn("of nobody", stacklevel=9)

        deep()
        for _ in range(2):
            warnings.warn("once in a place")
        warnings.simplefilter("error")
        warnings.warn("now an error", ResourceWarning)
    """),
    "stack": Program("""
        import inspect, sys, traceback

        def inner():
            traceback.print_stack()
            print(traceback.format_stack())
            print([frame.function for frame in inspect.stack()], inspect.stack()[-1].filename)
            print(sys._getframe(1).f_back, sys._getframe(1).f_code.co_name)
            print(len(sys._current_frames()))
            sys._getframe(2)

        print(inspect.currentframe().f_back, inspect.getsource(inner).splitlines()[0])
        inner()
    """),
    "stack in a hook and a handler": Program("""
        import atexit, sys, traceback
        atexit.register(traceback.print_stack)
        sys.excepthook = lambda *_: traceback.print_stack()
        1 / 0
    """),
    "stack in a log": Program("""
        import logging
        logging.basicConfig(format="%(levelname)s %(filename)s:%(lineno)d %(funcName)s %(message)s")
        logging.warning("text", stack_info=True)
        logging.getLogger("deep").error("other", stacklevel=5)
        logging.info("not shown")
        try:
            1 / 0
        except ZeroDivisionError:
            logging.exception("caught")
        print(logging.root.handlers, logging.getLogger().level, logging.lastResort)
    """),
    "log without configuration": Program("""
        import logging
        logging.warning("configured by this")
        logging.getLogger("x").debug("hidden")
    """),
    "trace": Program("""
        import sys
        def trace(frame, event, value):
            print(event, frame.f_code.co_name, frame.f_lineno)
            return trace

        def traced():
            return 5

        sys.settrace(trace)
        traced()
        sys.settrace(None)
    """),
    "trace until the end": Program("""
        import sys
        seen = []
        sys.setprofile(lambda frame, event, value: seen.append(frame.f_code.co_filename))
        len("x")
        raise SystemExit(len(set(seen)))
    """),
    "fault handler": Program(
        """
        import faulthandler, sys
        print(faulthandler.is_enabled())
        faulthandler.dump_traceback()
        """,
        known_difference="it walks over frames that are hidden from all else, the sandbox's too",
    ),
    "classes of the main module": Program("""
        import copy, dataclasses, enum, inspect, pickle, typing

        @dataclasses.dataclass(order=True)
        class Point:
            x: int
            y: "Point | None" = None

        class Color(enum.Enum):
            RED = 1

        Pair = typing.NamedTuple("Pair", [("a", int), ("b", str)])
        print(pickle.loads(pickle.dumps([Point(1, Point(2)), Color.RED, Pair(1, "b")])))
        print(Point.__module__, Pair.__module__, typing.get_type_hints(Point))
        print(inspect.getsource(Point), inspect.getmodule(Point), inspect.getfile(Color))
        print(copy.deepcopy(Point(3)), inspect.getsourcelines(Color)[1], pickle.dumps(Point))
    """),
    "doctest": Program('''
        """Adds.

        >>> add(1, 2)
        3
        >>> add(1, 1)
        3
        """
        import doctest

        def add(a, b):
            """
            >>> add(2, 2)
            4
            """
            return a + b

        print(doctest.testmod())
    '''),
    "unittest": Program("""
        import unittest

        class TestSum(unittest.TestCase):
            def test_passes(self):
                self.assertEqual(sum([1, 2]), 3)

            def test_fails(self):
                self.assertEqual(sum([1, 2]), 4)

        unittest.main()
    """),
}
