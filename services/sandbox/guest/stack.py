"""Hides the sandbox's own frames from the programs that run on top of them.

A program is called by the zygote, the slot and more. Its tracebacks, its recursion limit, and
whatever walks over frames must not see any of that.
"""

import ctypes
import opcode
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_RESUME, _NOP = opcode.opmap["RESUME"], opcode.opmap["NOP"]
_WORDS = 64
_remaining: list[memoryview] = []


class _Begin(Exception):
    """Unwinds the first module's frame before the function that is to be the first is called."""


def hide_frames(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Hide a function (not a generator) from stacks and tracebacks.

    CPython considers a frame complete once it has executed the RESUME instruction, and skips
    incomplete frames wherever it walks over them.
    """
    plain: Any = function
    plain.__code__ = _without_resume(plain.__code__)
    return function


def begin(main: Callable[[], NoReturn]) -> None:
    """Call ``main``, a hidden function, with no Python frame below it.

    Must be the last statement of the main module: the interpreter calls sys.excepthook after it has
    left that module.
    """

    @hide_frames
    def hook(*_: Any) -> None:
        sys.excepthook = sys.__excepthook__
        del sys.last_type, sys.last_value, sys.last_traceback
        main()

    sys.excepthook = hook
    raise _Begin


def find_depth() -> None:
    """Locate the counter of remaining recursion in this build's thread state; call in a zygote.

    If it cannot be located, the sandbox's own frames count toward a program's recursion limit.
    """
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    kind = ctypes.c_int * _WORDS
    words = kind.from_address(ctypes.pythonapi.PyThreadState_Get())
    limit = sys.getrecursionlimit()
    layout = set(range(_WORDS - 1))
    for probe in (limit + 7919, limit + 15485863):
        sys.setrecursionlimit(probe)
        layout &= {n for n in layout if words[n + 1] == probe and 0 < probe - words[n] < limit}
    sys.setrecursionlimit(limit)
    if len(layout) == 1:
        _remaining.append(memoryview(words).cast("B").cast("i")[layout.pop() :])


def forget_depth(*, spare: int) -> None:
    """Reset the recursion depth for the caller, with ``spare`` calls on top."""
    this_call = 1
    for count in _remaining:
        count[0] = sys.getrecursionlimit() - this_call + spare


def _without_resume(code: types.CodeType) -> types.CodeType:
    instructions = bytearray(code.co_code)
    for at in range(0, len(instructions), 2):
        if instructions[at] == _RESUME:
            instructions[at] = _NOP
    return code.replace(co_code=bytes(instructions))
