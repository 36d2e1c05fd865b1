"""The ways in which a program can end."""

from tests.integration.sandbox.python_programs.program import Program


def exits(value: str) -> Program:
    """A program that exits with a value, after it printed something."""
    return Program(f"import sys\nprint('out', end='')\nsys.exit({value})\n")


PROGRAMS = {
    "exit": exits(""),
    "exit None": exits("None"),
    "exit 3": exits("3"),
    "exit True": exits("True"),
    "exit 256": exits("256"),
    "exit -1": exits("-1"),
    "exit 2**31": exits("2**31 + 5"),
    "exit 2**70": exits("2**70 + 5"),
    "exit text": exits("'a message \\u00e9 \\udc80'"),
    "exit object": exits("['an', 'object']"),
    "exit two values": exits("(1, 2)"),
    "exit float": exits("0.0"),
    "raise SystemExit with two arguments": Program("raise SystemExit(1, 2)\n"),
    "exit with an object without text": Program("""
        class Odd:
            def __str__(self):
                raise ValueError("no text")

        raise SystemExit(Odd())
    """),
    "exit with a text, without stderr": Program("""
        import sys
        sys.stderr = None
        sys.exit("to the real one")
    """),
    "own SystemExit": Program("""
        class Leave(SystemExit):
            pass

        raise Leave(9)
    """),
    "SystemExit with a code that was changed": Program("""
        error = SystemExit(1)
        error.code = 6
        raise error
    """),
    "exit function of the interpreter": Program("print(exit, quit)\nexit(4)\n"),
    "exit inside try": Program("""
        import sys
        try:
            sys.exit(2)
        finally:
            print("finally")
    """),
    "keyboard interrupt": Program("raise KeyboardInterrupt\n"),
    "own keyboard interrupt": Program("""
        class Interrupted(KeyboardInterrupt):
            pass

        raise Interrupted("x")
    """),
    "interrupted by a signal": Program("""
        import os, signal, time
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    """),
    "interrupt that is caught": Program("""
        import os, signal, time
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            print("caught")
    """),
    "os._exit loses output": Program("""
        import os
        print("lost")
        os._exit(5)
    """),
    "os._exit with a full buffer": Program("""
        import os
        for number in range(3000):
            print(number)
        os._exit(0)
    """),
    "abort": Program("import os\nprint('lost')\nos.abort()\n"),
    "segmentation fault": Program("import ctypes\nprint('x', flush=True)\nctypes.string_at(0)\n"),
    "terminated": Program("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"),
    "killed": Program("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"),
    "raised signal": Program("import signal\nsignal.raise_signal(signal.SIGUSR1)\n"),
    "own signal handlers": Program("""
        import os, signal, threading

        signal.signal(signal.SIGTERM, lambda number, frame: print("handler", number))
        os.kill(os.getpid(), signal.SIGTERM)
        alarms = []
        signal.signal(signal.SIGALRM, lambda number, frame: alarms.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        while not alarms:
            signal.pause()
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("alarm", alarms[0])
        main = threading.main_thread().ident
        thread = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGTERM))
        thread.start()
        thread.join()
        print("end")
    """),
    "order at exit": Program("""
        import atexit, threading, time, weakref

        class Noted:
            def __init__(self, name):
                self.name = name
            def __del__(self):
                print("deleted", self.name)

        def late():
            while not threading.main_thread()._is_stopped:  # to join it would be a race
                time.sleep(0.01)
            print("thread")

        atexit.register(print, "registered first")
        atexit.register(print, "registered last")
        threading.Thread(target=late).start()
        kept = Noted("kept")
        also = Noted("also")
        weakref.finalize(kept, print, "finalized")
        print("main ends")
    """),
    "exit handlers that fail": Program("""
        import atexit, sys

        def fails():
            raise ValueError("in the handler")

        atexit.register(print, "still called")
        atexit.register(fails)
        atexit.register(sys.exit, 3)
        sys.exit(2)
    """),
    "exit handlers after an error": Program("""
        import atexit
        atexit.register(print, "handler")
        1 / 0
    """),
    "exit handler that registers another": Program("""
        import atexit
        atexit.register(lambda: atexit.register(print, "inner"))
        print("end")
    """),
    "globals that __del__ uses": Program("""
        import os

        def helper(text):
            print(os.path.basename(text), NAME)

        class Last:
            def __del__(self):
                helper("a/last")
                print(__name__, type(self).__name__)

        NAME = "name"
        object_ = Last()
        cycle = Last()
        cycle.itself = cycle
        LATER = 1
    """),
    "globals without functions": Program("""
        import io

        class Noted(io.StringIO):
            __del__ = print

        _first, second, third = io.StringIO("a"), [1], {"k": io.BytesIO(b"v")}
    """),
    "file that is never closed": Program("""
        import atexit, subprocess, sys
        file = open("left.txt", "w")
        file.write("some text")
        hidden = [open("hidden.txt", "w")]
        hidden[0].write("other")
        hidden.append(hidden)
    """),
    "module that deletes at exit": Program(
        "import holder\nprint('main')\n",
        files={
            "holder.py": b"class Last:\n    def __del__(self):\n        print('module', __name__)\n"
            b"\nkept = Last()\n"
        },
    ),
    "__main__ that is held": Program("""
        import json
        import __main__

        class Last:
            def __del__(self):
                print("deleted")

        json.held = __main__
        last = Last()
    """),
    "error in a thread": Program("""
        import threading

        def fail():
            raise ValueError("in a thread")

        thread = threading.Thread(target=fail, name="worker")
        thread.start()
        thread.join()
        print("main goes on")
    """),
    "exit in a thread": Program("""
        import sys, threading

        thread = threading.Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
        print("main goes on")
    """),
    "hook for errors in threads": Program("""
        import threading
        threading.excepthook = lambda args: print("hook", args.exc_value, args.thread.name)
        thread = threading.Thread(target=lambda: 1 / 0, name="worker")
        thread.start()
        thread.join()
    """),
    "daemon thread that goes on": Program("""
        import threading, time
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        print("main ends")
    """),
    "thread that outlives an error": Program("""
        import threading, time

        def late():
            while not threading.main_thread()._is_stopped:
                time.sleep(0.01)
            print("late", threading.main_thread().is_alive())

        threading.Thread(target=late).start()
        raise SystemExit(4)
    """),
    "fork that returns": Program("""
        import atexit, os, sys
        atexit.register(lambda: print("handler", flush=True))
        child = os.fork()
        if child == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """),
    "fork that fails": Program("""
        import os
        child = os.fork()
        if child == 0:
            raise ValueError("in the fork")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """),
    "execution of another program": Program("""
        import os, sys
        print("flushed", flush=True)
        os.execv(sys.executable, [sys.executable, "-c", "print('executed')"])
    """),
    "os._exit replaced": Program("""
        import os, sys
        os._exit = print
        sys.exit(3)
    """),
    "sys.modules without the program": Program("""
        import sys
        del sys.modules["__main__"]
        print("out")
        raise SystemExit(4)
    """),
    "interrupt that is blocked": Program("""
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        raise KeyboardInterrupt
    """),
    "hook for what cannot be raised fails": Program(
        """
        import os, sys

        def fail(details):
            raise ValueError("in the hook")

        sys.unraisablehook = fail
        os.close(1)
        print("lost")
        """,
        known_difference="Python tells of the hook's failure by a function that it keeps to itself",
    ),
    "memory error": Program("x = bytearray(1 << 60)\n"),
}
