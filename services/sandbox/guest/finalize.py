"""Shuts a Python program down like the interpreter does, with one exception.

Py_Finalize walks over every object. This releases only the program's own modules: touching the
zygote's objects would copy their pages.
"""

import atexit
import contextlib
import gc
import itertools
import os
import signal
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from services.sandbox.guest import stack

INTERRUPTED = -2
"""In place of an exit status: the program was interrupted, so its process must die by SIGINT."""

leave = os._exit
"""Ends the process even if the program has replaced `os._exit`."""

_LOST_OUTPUT = 120
_BLOCKED_INTERRUPT = 128 + signal.SIGINT
_LARGEST_LONG = 2**63 - 1
_modules_of_zygote: set[str] = set()


def prepare() -> None:
    """Record which modules belong to the zygote."""
    _modules_of_zygote.update(sys.modules)


@stack.hide_frames
def status_of(run: Callable[[str], None], name: str) -> int:
    """Run the program and report its exception; return its exit status, or `INTERRUPTED`."""
    failure = None
    try:
        run(name)
    except BaseException as error:
        failure = error
    # Outside the except clause: exceptions raised from here on must not get it as context.
    if failure is None:
        return 0
    if isinstance(failure, SystemExit):
        return _exit_status(failure)
    status = _report(failure)
    return INTERRUPTED if type(failure) is KeyboardInterrupt else status


@stack.hide_frames
def end(status: int) -> NoReturn:
    """Exit with this status, after everything Python does at shutdown."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # private: what an interpreter calls at its end
    except BaseException as error:
        _ignore(error, threading)
    atexit._run_exitfuncs()
    flushed = _flush_streams(reported=True)
    gc.collect()
    with contextlib.suppress(Exception):  # a program may have put anything into sys
        _release_modules()
    _flush_streams(reported=False)
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        leave(_BLOCKED_INTERRUPT)
    leave(status if flushed else _LOST_OUTPUT)


@stack.hide_frames
def _exit_status(request: SystemExit) -> int:
    code = request.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -_LARGEST_LONG - 1 <= code <= _LARGEST_LONG else 0xFF
    text = ""
    with contextlib.suppress(Exception):
        text = str(code)
    _write_error(f"{text}\n")
    return 1


@stack.hide_frames
def _report(error: BaseException) -> int:
    """Report the exception through sys.excepthook, like Python; return the exit status."""
    trace = error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    try:
        hook = sys.excepthook
    except AttributeError:
        _write_error("sys.excepthook is missing\n")
        hook = sys.__excepthook__
    failure = None
    try:
        hook(type(error), error, trace)
    except BaseException as hook_failure:
        failure = hook_failure
    if isinstance(failure, SystemExit):
        return _exit_status(failure)
    if failure is not None:
        _write_error("Error in sys.excepthook:\n")
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        _write_error("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, trace)
    return 1


@stack.hide_frames
def _flush_streams(*, reported: bool) -> bool:
    """Flush sys.stdout and sys.stderr; return False if output was lost.

    Failures are reported for stdout if ``reported``.
    """
    return all([_flush("stdout", reported=reported), _flush("stderr", reported=False)])


@stack.hide_frames
def _flush(name: str, *, reported: bool) -> bool:
    stream = getattr(sys, name, None)
    if stream is None or _is_closed(stream):
        return True
    try:
        stream.flush()
    except BaseException as error:
        if reported:
            _ignore(error, stream)
        return False
    return True


@stack.hide_frames
def _is_closed(stream: Any) -> bool:
    try:
        return bool(stream.closed)
    except Exception:
        return False


@stack.hide_frames
def _ignore(error: BaseException, source: object) -> None:
    """Report an exception that cannot propagate, through sys.unraisablehook."""
    details: Any = types.SimpleNamespace(
        exc_type=type(error),
        exc_value=error,
        exc_traceback=error.__traceback__,
        err_msg=None,
        object=source,
    )
    if sys.unraisablehook is not sys.__unraisablehook__:
        with contextlib.suppress(Exception):
            sys.unraisablehook(details)
        return
    name = "<object repr() failed>"
    with contextlib.suppress(Exception):
        name = repr(source)
    _write_error(f"Exception ignored in: {name}\n")
    sys.__excepthook__(type(error), error, error.__traceback__)


@stack.hide_frames
def _release_modules() -> None:
    """Release the program's modules, so that their objects are finalized and files closed."""
    for name in ("last_type", "last_value", "last_traceback"):
        setattr(sys, name, None)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    main_module = weakref.ref(sys.modules.pop("__main__"))
    # From the end: even looking at a name writes to its page (reference counts).
    for name in list(itertools.takewhile(_is_new, reversed(sys.modules))):
        del sys.modules[name]
    gc.collect()
    module = main_module()
    if module is not None:  # still referenced elsewhere
        names = vars(module)
        for private in (True, False):
            for name in [n for n in names if n.startswith("_") == private and n != "__builtins__"]:
                names[name] = None


def _is_new(module: str) -> bool:
    return module not in _modules_of_zygote


@stack.hide_frames
def _write_error(text: str) -> None:
    """Write to the program's stderr, or directly to descriptor 2 if that fails."""
    try:
        sys.stderr.write(text)
    except Exception:
        with contextlib.suppress(OSError):
            os.write(2, text.encode("utf-8", "backslashreplace"))
