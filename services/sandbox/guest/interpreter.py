"""Runs a Python program in the current interpreter, like ``python FILE``.

The program gets its own ``__main__``, arguments, path, streams, random seeds and shutdown, and sees
nothing of the sandbox in tracebacks. A fork pays for every page it writes to, so what all programs
have in common is built once in the zygote, by `prepare`.
"""

import builtins
import ctypes
import gc
import importlib.machinery
import io
import os
import random
import runpy
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from services.sandbox.guest import finalize, stack

_CANNOT_OPEN = 2
_FILE_INPUT = 257  # Py_file_input: a whole file
_streams: list[io.TextIOWrapper] = []
_generators: list[random.Random] = []
_own_modules: dict[str, types.ModuleType] = {}
_may_be_hidden: set[str] = set()
_as_c_file = ctypes.PyDLL(None).fdopen
_as_c_file.restype = ctypes.c_void_p
_run_open_file = ctypes.pythonapi.PyRun_FileExFlags
_run_open_file.restype = ctypes.py_object
_run_open_file.argtypes = (
    *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.py_object, ctypes.py_object),
    *(ctypes.c_int, ctypes.c_void_p),
)


def prepare() -> None:
    """Build what programs share in the zygote, and hide what they must not find."""
    stack.find_depth()
    _streams[:] = _text_streams()
    for name in [name for name in sys.modules if name.partition(".")[0] == "services"]:
        _own_modules[name] = sys.modules.pop(name)
    _may_be_hidden.update(filter(_can_be_hidden, sys.modules))
    for folder in [path for path in sys.path_importer_cache if not _is_pythons(path)]:
        del sys.path_importer_cache[folder]
    _generators[:] = [found for found in gc.get_objects() if type(found) is random.Random]
    tempfile.tempdir = None
    finalize.prepare()


def show_own_modules() -> None:
    """Make the sandbox's own modules importable again."""
    sys.modules.update(_own_modules)


def use_streams() -> None:
    """Point ``sys`` at the current descriptors 0, 1 and 2."""
    sys.stdin, sys.stdout, sys.stderr = _streams
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = _streams  # type: ignore[misc]  # they are final in typeshed


def reseed() -> None:
    """Reseed every generator that was seeded in the zygote."""
    for generator in _generators:
        generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


@stack.hide_frames
def run_file(arguments: list[str]) -> NoReturn:
    """Behave like ``python FILE ARGUMENT...``."""
    sys.orig_argv[1:] = arguments
    sys.argv[:] = arguments
    # abspath, because Python does not resolve links here and pathlib would.
    _run_as_python(_run_file, os.path.abspath(arguments[0]))  # noqa: PTH100


@stack.hide_frames
def run_module(arguments: list[str]) -> NoReturn:
    """Behave like ``python -m MODULE ARGUMENT...``."""
    sys.orig_argv[1:] = ["-m", *arguments]
    sys.argv[:] = ["-m", *arguments[1:]]
    _run_as_python(_run_module, arguments[0])


@stack.hide_frames
def _run_as_python(run: Callable[[str], None], name: str) -> NoReturn:
    try:
        use_streams()
        reseed()
        threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # private: what threading does after a fork
        finalize.end(finalize.status_of(run, name))
    finally:
        finalize.leave(1)


@stack.hide_frames
def _run_file(path: str) -> None:
    main_module = _make_main_module()
    main_module.__file__ = path
    main_module.__cached__ = None
    main_module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        reason = f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        sys.stderr.write(f"{sys.orig_argv[0]}: {reason}\n")
        sys.exit(_CANNOT_OPEN)
    _prepend_to_path(os.path.dirname(path))  # noqa: PTH120 - as above
    names = vars(main_module)
    stack.forget_depth(spare=1)  # for the call of a C function
    _run_open_file(
        _as_c_file(descriptor, b"r"), os.fsencode(path), _FILE_INPUT, names, names, True, None
    )


@stack.hide_frames
def _run_module(module: str) -> None:
    _make_main_module()
    _prepend_to_path(os.getcwd())  # noqa: PTH109 - a str, as Python has it there
    stack.forget_depth(spare=0)
    runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # private: what `python -m` calls


def _make_main_module() -> Any:
    """Created in the program itself: the collector ignores frozen objects, see `finalize`."""
    main_module: Any = types.ModuleType("__main__")
    main_module.__annotations__ = {}
    main_module.__builtins__ = builtins
    sys.modules["__main__"] = main_module
    return main_module


def _prepend_to_path(folder: str) -> None:
    """Put ``folder`` first on sys.path, even for names that the zygote has already imported."""
    sys.path[0] = folder
    for entry in os.listdir(folder):  # noqa: PTH208 - names are enough
        name, _, suffix = entry.partition(".")
        if name in _may_be_hidden and (
            suffix == "py" or Path(folder, name, "__init__.py").exists()
        ):
            for known in [known for known in sys.modules if known.partition(".")[0] == name]:
                del sys.modules[known]


def _is_pythons(path: str) -> bool:
    return path.startswith((sys.prefix, sys.base_prefix))


def _can_be_hidden(module: str) -> bool:
    """Whether a local file of this name would shadow the module, had it not been imported."""
    return (
        module not in sys.builtin_module_names
        and importlib.machinery.FrozenImporter.find_spec(module) is None
        and "." not in module
        and module not in ("__main__", "encodings", "site", "sitecustomize")
    )


def _text_streams() -> list[io.TextIOWrapper]:
    """The three standard streams as Python creates them for a pipe, which cannot seek."""
    ends = os.pipe()
    kept = [os.dup(descriptor) for descriptor in range(3)]
    for descriptor, end in enumerate((ends[0], ends[1], ends[1])):
        os.dup2(end, descriptor)
    streams = [
        _text_stream(0, "r", "<stdin>"),
        _text_stream(1, "w", "<stdout>"),
        _text_stream(2, "w", "<stderr>"),
    ]
    for descriptor, old in enumerate(kept):
        os.dup2(old, descriptor)
    for descriptor in (*kept, *ends):
        os.close(descriptor)
    return streams


def _text_stream(descriptor: int, mode: str, name: str) -> io.TextIOWrapper:
    buffered: Any = open(descriptor, f"{mode}b", closefd=False)  # noqa: SIM115 - stays open
    buffered.raw.name = name
    errors = "backslashreplace" if descriptor == 2 else "surrogateescape"
    stream: Any = io.TextIOWrapper(
        buffered, "utf-8", errors, newline="\n", line_buffering=descriptor == 2
    )
    stream.mode = mode
    return stream  # type: ignore[no-any-return]  # io.open is typed as Any
