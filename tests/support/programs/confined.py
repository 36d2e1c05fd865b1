"""Runs code in a fork of the test, which can be confined without affecting the test."""

import ctypes
import json
import os
import signal
from collections.abc import Callable
from typing import Any

from services.sandbox.guest import syscalls

_MOST_SECONDS = 60
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_numbers = ctypes.CDLL("libseccomp.so.2")


class Killed(Exception):
    """The fork ended by this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = signal.Signals(number)


def in_fork(task: Callable[[], Any]) -> Any:
    """Run ``task`` in a fork; return its result (as JSON would), raise its OSError or `Killed`."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        signal.alarm(_MOST_SECONDS)
        try:
            answer = {"value": task()}
        except OSError as error:
            answer = {"errno": error.errno, "text": str(error)}
        except BaseException as error:
            answer = {"failure": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise Killed(os.WTERMSIG(status))
    answer = json.loads(text)
    if "failure" in answer:
        raise AssertionError(answer["failure"])
    if "errno" in answer:
        raise OSError(answer["errno"], answer["text"])
    return answer["value"]


def filtered(program: bytes, task: Callable[[], Any]) -> Any:
    """As `in_fork`, under a seccomp program and without privileges."""

    def confine_and_run() -> Any:
        syscalls.renounce_privileges()
        syscalls.install_filter(program)
        return task()

    return in_fork(confine_and_run)


def call(name: str, *arguments: Any) -> int:
    """Make a system call by its name; raises OSError."""
    done = _libc.syscall(ctypes.c_long(number_of(name)), *map(_word, arguments))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(done)


def architecture() -> int:
    """The AUDIT_ARCH constant of this machine."""
    native = _numbers.seccomp_arch_native
    native.restype = ctypes.c_uint32
    return int(native())


def number_of(name: str, machine: int | None = None) -> int:
    """The number of a system call, on this machine or on that of an AUDIT_ARCH constant."""
    resolve = _numbers.seccomp_syscall_resolve_name_arch
    return int(resolve(ctypes.c_uint32(machine or architecture()), name.encode()))


def _word(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
