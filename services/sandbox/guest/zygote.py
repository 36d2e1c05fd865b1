"""A process with packages imported; slots are forks of it.

    python zygote.py CHANNEL

The first message holds the configuration and the modules to import; each further one asks for a
slot and carries the slot's end of its channel.
"""

import contextlib
import functools
import gc
import importlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from services.sandbox.guest import (
    container,
    frames,
    interpreter,
    namespaces,
    program,
    slot,
    stack,
    syscalls,
    warmup,
)
from services.sandbox.guest.layout import Configuration

_HUGE_PAGE = 2 << 20
_OOM_SCORE = 500
"""When memory runs out, the kernel kills programs first, zygotes next, and the service last."""

_IGNORED_BY_OTHERS = (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
"""Signals that a parent may have set to be ignored, as shells do for background jobs."""


@stack.hide_frames
def main(descriptor: int) -> NoReturn:
    """Warm up, then fork slots until the service closes the channel."""
    channel = socket.socket(fileno=descriptor)
    syscalls.die_with_parent()
    with contextlib.suppress(frames.ChannelClosed):  # possible even during warm-up
        configuration = _prepare(channel)
        while True:
            _serve(channel, configuration)
    os._exit(0)


def _prepare(channel: socket.socket) -> Configuration:
    """Apply the configuration, preload modules, and report ready."""
    program.set_oom_score(_OOM_SCORE)
    request, _ = frames.receive(channel)
    configuration = Configuration(**request["configuration"])
    configuration = configuration._replace(
        seccomp=bytes(frames.exactly(channel, request["filter_bytes"]))
    )
    # Our own code is unreachable after entering the root.
    own = [module for module in request["modules"] if module.startswith("services.")]
    missing = _import(own)
    try:
        if configuration.tier == "full":
            namespaces.enter_root(configuration)
        _drop_service_state(request["environment"])
        missing += _warm_up(request["modules"], request["profile"])
    except OSError as error:
        frames.send(channel, {"failure": str(error)})
        sys.exit(1)
    _prepare_forks()
    frames.send(channel, {"ready": True, "missing": missing})
    return configuration


@stack.hide_frames
def _serve(channel: socket.socket, configuration: Configuration) -> None:
    request, descriptors = frames.receive(channel)
    if "end_user" in request:
        _end_user(channel, request["end_user"])
        return
    pid = os.fork()
    if pid == 0:
        channel.close()
        slot.main(socket.socket(fileno=descriptors[0]), configuration, request["user"])
    os.close(descriptors[0])
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:  # it has already exited, as when the service closed its channel
        frames.send(channel, {"forked": False})
        return
    frames.send(channel, {"forked": True}, descriptors=(pidfd,))
    os.close(pidfd)


def _end_user(channel: socket.socket, user: int) -> None:
    try:
        container.end_user(user)
        frames.send(channel, {"ended": True})
    except TimeoutError as error:
        frames.send(channel, {"failure": str(error)})


def _drop_service_state(environment: dict[str, str]) -> None:
    """Drop the environment, signals and path of the service; programs inherit the rest."""
    os.environ.clear()
    os.environ.update(environment)
    for number in _IGNORED_BY_OTHERS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = Path(__file__).parents[3]
    sys.path[:] = [path for path in sys.path if path != str(code)]
    os.umask(0o022)
    os.chdir("/")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps slots


def _warm_up(modules: list[str], profile: str) -> list[str]:
    """Import modules and use them once; return those that are missing."""
    missing = _import([module for module in modules if not module.startswith("services.")])
    if profile in warmup.BY_NAME and not missing:
        warmup.BY_NAME[profile]()
    threads = len([*Path("/proc/self/task").iterdir()])
    if threads > 1:
        raise OSError(
            f"{threads} threads are running after the imports and would not survive a fork"
        )
    return missing


def _import(modules: list[str]) -> list[str]:
    """Import modules; return those that are missing."""
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(module)
    return missing


def _prepare_forks() -> None:
    """Make forks cheap: collect garbage, freeze the collector, use huge pages."""
    interpreter.prepare()
    gc.collect()
    gc.freeze()
    with open("/proc/self/maps") as lines:
        areas = [line.split() for line in lines]
    for area in areas:
        if area[1] != "rw-p" or (len(area) > 5 and area[5] != "[heap]"):
            continue
        start, end = (int(number, 16) for number in area[0].split("-"))
        first = -(-start // _HUGE_PAGE) * _HUGE_PAGE
        length = (end - first) // _HUGE_PAGE * _HUGE_PAGE
        if length > 0:
            syscalls.use_huge_pages(first, length)


if __name__ == "__main__":
    stack.begin(functools.partial(main, int(sys.argv[1])))
