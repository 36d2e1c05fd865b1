"""What a slot is told of an execution, and how it answers: the values behind the messages."""

import signal
from collections.abc import Mapping

from services.sandbox.execution import (
    Command,
    Ending,
    Executable,
    Execution,
    PythonFile,
    PythonModule,
)
from services.sandbox.guest.frames import Header
from services.sandbox.guest.layout import PROXY_PORT

BASIC_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "SHELL": "/bin/bash",
    # Libraries that compute in threads start them when they are imported, in the zygote, and
    # threads do not survive a fork. Programs share the machine's cores in any case.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}
"""What every program finds in its environment; nothing of the service's is in it."""

_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_PROXY_ENVIRONMENT = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    "NO_PROXY": "localhost,127.0.0.1,::1",
}


class Notebook:
    """The driver of a notebook's kernel, which serves a channel until it is ended."""


def environment_in(
    places: Mapping[str, str], extra: Mapping[str, str], *, proxied: bool
) -> dict[str, str]:
    """What a program finds besides in its environment."""
    workspace, temporary = places["workspace"], places["temporary"]
    own = {"HOME": workspace, "PWD": workspace, "TMPDIR": temporary}
    if proxied:  # programs read one spelling or the other
        own |= _PROXY_ENVIRONMENT
        own |= {name.lower(): value for name, value in _PROXY_ENVIRONMENT.items()}
    return {**own, **extra}


def order(
    execution: Execution,
    command: Command | Notebook,
    seconds: float | None,
    environment: Mapping[str, str],
) -> Header:
    """The message that starts ``command`` with the files and limits of ``execution``."""
    kind, arguments = _program(command)
    return {
        "program": {"kind": kind, "arguments": arguments, "environment": environment},
        "files": [
            (name, len(data), name in execution.executable_files)
            for name, data in execution.files.items()
        ],
        "seconds": seconds,
        "memory_bytes": execution.limits.memory_bytes,
        "fetch": list(execution.fetch),
    }


def files_of(answer: Header, body: bytes) -> dict[str, bytes]:
    """The fetched files that came with an answer."""
    files, at = {}, 0
    for name, size in answer["files"]:
        files[name] = body[at : at + size]
        at += size
    return files


def answer_of_the_dead(wall_seconds: float) -> Header:
    """The answer of a run whose slot was killed at the memory limit as well."""
    return {
        "ending": "out_of_memory",
        "return_code": -signal.SIGKILL,
        "wall_seconds": wall_seconds,
        "cpu_seconds": 0.0,
        "peak_memory_bytes": 0,
        "files": [],
        "left_out": [],
    }


def ending_of(answer: Header, *, memory_ran_out: bool) -> Ending:
    """How the program ended. One that outlives the end of a child by memory has exited."""
    if answer["ending"] == "timed_out":
        return Ending.TIMED_OUT
    if answer["ending"] == "out_of_memory" or (memory_ran_out and answer["return_code"]):
        return Ending.OUT_OF_MEMORY
    if answer["ending"] == "out_of_disk":
        return Ending.OUT_OF_DISK
    return Ending.EXITED


def _program(command: Command | Notebook) -> tuple[str, tuple[str, ...]]:
    match command:
        case PythonFile(file, arguments):
            return "file", (file, *arguments)
        case PythonModule(module, arguments):
            return "module", (module, *arguments)
        case Executable(arguments):
            return "executable", arguments
        case Notebook():
            return "notebook", ()
