"""Keeps the sandbox's own calls off the stack that a program can see.

A program runs on top of the zygote, the slot and all else that led to it. Its tracebacks, its
recursion, and whatever walks over frames shall end at its own first line.
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
    """Leads from the first module's frame to the function that shall be the first."""


def unseen(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Leave a function, no generator, out of stacks and tracebacks.

    A frame counts as complete once it has passed the instruction RESUME; all that walks over
    frames passes by those that are not.
    """
    plain: Any = function
    plain.__code__ = _without_resume(plain.__code__)
    return function


def begin(main: Callable[[], NoReturn]) -> None:
    """Call ``main``, an `unseen` function, with nothing of Python below it.

    To be called as the last of the first module: the interpreter calls its hook for errors when
    it has left that module.
    """

    @unseen
    def hook(*_: Any) -> None:
        sys.excepthook = sys.__excepthook__
        del sys.last_type, sys.last_value, sys.last_traceback
        main()

    sys.excepthook = hook
    raise _Begin


def find_depth() -> None:
    """Find where this Python counts the calls that are left, once and in a zygote.

    Where it does so elsewhere, what is below a program goes on counting for its recursion.
    """
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    kind = ctypes.c_int * _WORDS
    words = kind.from_address(ctypes.pythonapi.PyThreadState_Get())
    limit = sys.getrecursionlimit()
    places = set(range(_WORDS - 1))
    for probe in (limit + 7919, limit + 15485863):
        sys.setrecursionlimit(probe)
        places &= {n for n in places if words[n + 1] == probe and 0 < probe - words[n] < limit}
    sys.setrecursionlimit(limit)
    if len(places) == 1:
        _remaining.append(memoryview(words).cast("B").cast("i")[places.pop() :])


def forget_depth(*, spare: int) -> None:
    """Let the caller go as deep as if nothing were below it, and ``spare`` calls more."""
    this_call = 1
    for count in _remaining:
        count[0] = sys.getrecursionlimit() - this_call + spare


def _without_resume(code: types.CodeType) -> types.CodeType:
    instructions = bytearray(code.co_code)
    for at in range(0, len(instructions), 2):
        if instructions[at] == _RESUME:
            instructions[at] = _NOP
    return code.replace(co_code=bytes(instructions))
