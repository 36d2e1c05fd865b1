"""Zygotes: warm interpreter processes, one per profile of imported packages."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from services.sandbox.execution import Command, Executable, PythonModule, SandboxFailure
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.guest.layout import Configuration
from services.sandbox.pool.protocol import BASIC_ENVIRONMENT, Channel

logger = logging.getLogger(__name__)

REPOSITORY = Path(__file__).resolve().parents[3]
_SCRIPT = REPOSITORY / "services" / "sandbox" / "guest" / "zygote.py"
_START_SECONDS = 60.0
_FORK_SECONDS = 10.0
_END_USER_SECONDS = 12.0

Answer = TypeVar("Answer")


COMMON = (
    *("abc", "argparse", "array", "ast", "base64", "bisect", "calendar", "cmath", "collections"),
    *("contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "hashlib", "heapq", "io", "itertools", "json", "math", "numbers", "operator"),
    *("pathlib", "pickle", "pprint", "queue", "random", "re", "shutil", "statistics", "string"),
    *("struct", "subprocess", "tempfile", "textwrap", "threading", "time", "traceback", "typing"),
    *("unicodedata", "urllib.parse", "uuid", "warnings"),
)
"""The standard-library modules that model-written programs import most; each slows down a fork."""


@dataclass(frozen=True)
class Profile:
    """A kind of zygote: the modules it imports, and the packages a program finds loaded."""

    name: str
    packages: frozenset[str]
    modules: tuple[str, ...]


def _profile(name: str, packages: str, *modules: str) -> Profile:
    return Profile(name, frozenset(packages.split()), (*COMMON, *(modules or packages.split())))


BASE = _profile("base", "")
PYTEST = _profile("pytest", "pytest", "pytest", "_pytest.assertion.rewrite")
NOTEBOOK = _profile("notebook", "", "services.sandbox.guest.notebook.driver")
SCIENTIFIC = _profile(
    "scientific",
    "numpy scipy pandas sympy mpmath sklearn networkx",
    *("numpy", "numpy.random", "pandas", "sympy", "networkx", "sklearn"),
    *("scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.linalg", "scipy.sparse"),
    *("scipy.special", "scipy.interpolate", "scipy.signal", "scipy.spatial"),
)
BY_SIZE = (
    BASE,
    _profile("numpy", "numpy", "numpy", "numpy.random", "numpy.linalg"),
    _profile("networkx", "networkx"),
    _profile("sympy", "sympy mpmath"),
    _profile("pandas", "pandas numpy", "pandas", "numpy.random"),
    SCIENTIFIC,
)
"""From the fastest to fork to the slowest."""

ALL = (*BY_SIZE, PYTEST, NOTEBOOK)


def choose_profile(command: Command, imports: frozenset[str]) -> Profile:
    """The fastest profile that has loaded everything the program will import."""
    if isinstance(command, Executable):
        return BASE
    if isinstance(command, PythonModule):
        return PYTEST if command.module == "pytest" else BASE
    needed = imports & SCIENTIFIC.packages
    return next(profile for profile in BY_SIZE if needed <= profile.packages)


@dataclass(frozen=True)
class SlotProcess:
    """A new slot: its process id in this namespace, its pidfd, and its channel."""

    pid: int
    pidfd: int
    channel: Channel


class Zygote:
    """A warm process of one profile, started on first use and restarted after a crash."""

    def __init__(self, profile: Profile, python: Path, configuration: Configuration) -> None:
        self._profile = profile
        self._python = python
        self._configuration = configuration
        self._lock = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    async def warm_up(self) -> None:
        """Start the process now; raises `SandboxFailure`."""
        async with self._lock:
            await self._ensure_started()

    async def fork_slot(self, user: int | None) -> SlotProcess:
        """Fork a slot, with this user id if slots have their own; raises `SandboxFailure`."""
        return await self._ask(lambda channel: self._fork(channel, user), _FORK_SECONDS)

    async def end_user(self, user: int) -> None:
        """Kill every process of a closed slot's user; raises `SandboxFailure`.

        Only needed in the container tier: with namespaces the kernel does it.
        """
        answer = await self._ask(lambda channel: _end_user(channel, user), _END_USER_SECONDS)
        if "failure" in answer:
            raise SandboxFailure(answer["failure"])

    async def close(self) -> None:
        """Kill the process; its slots and their runs die with it."""
        async with self._lock:
            await self._stop()

    async def _ask(self, ask: Callable[[Channel], Awaitable[Answer]], seconds: float) -> Answer:
        """Send the process a request; if it was killed or hangs, restart it and retry once."""
        async with self._lock:
            for _ in range(2):
                channel = await self._ensure_started()
                try:
                    async with asyncio.timeout(seconds):
                        return await ask(channel)
                except (TimeoutError, ChannelClosed):
                    logger.warning("zygote %s does not answer: restarting", self._profile.name)
                    await self._stop()
        raise SandboxFailure(f"the zygote {self._profile.name} does not answer")

    async def _ensure_started(self) -> Channel:
        if self._process is not None and self._process.poll() is not None:
            logger.warning("zygote %s exited: restarting", self._profile.name)
            await self._stop()
        return self._channel or await self._start()

    async def _start(self) -> Channel:
        own_end, other_end = socket.socketpair()
        with other_end:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - a fork and an exec, no waiting
                [self._python, str(_SCRIPT), str(other_end.fileno())],
                pass_fds=[other_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C goes to the service, which closes this
                env={**BASIC_ENVIRONMENT, "PYTHONPATH": str(REPOSITORY)},
            )
        channel = self._channel = Channel(own_end)
        seccomp = self._configuration.seccomp
        order = {
            "configuration": {**self._configuration._asdict(), "seccomp": ""},
            "filter_bytes": len(seccomp),
            "environment": BASIC_ENVIRONMENT,
            "modules": self._profile.modules,
            "profile": self._profile.name,
        }
        try:
            async with asyncio.timeout(_START_SECONDS):
                await channel.send(order, [seccomp])
                answer, _ = await channel.receive()
        except (TimeoutError, ChannelClosed):
            answer = {"failure": "it exited or hung while starting"}
        self._check(answer)
        if "failure" in answer:
            await self._stop()
            raise SandboxFailure(f"zygote {self._profile.name}: {answer['failure']}")
        return channel

    def _check(self, answer: Header) -> None:
        if answer.get("missing"):
            logger.warning(
                "the sandbox's runtime lacks %s: importing them will be slow or fail",
                ", ".join(answer["missing"]),
            )

    async def _fork(self, channel: Channel, user: int | None) -> SlotProcess:
        own_end, other_end = socket.socketpair()
        try:
            with other_end:
                await channel.send({"user": user}, descriptors=[other_end.fileno()])
            await channel.receive()
            pidfd = channel.take_descriptor()
            return SlotProcess(_pid(pidfd), pidfd, Channel(own_end))
        except BaseException:
            own_end.close()
            raise

    async def _stop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            process, self._process = self._process, None
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)


async def _end_user(channel: Channel, user: int) -> Header:
    await channel.send({"end_user": user})
    answer, _ = await channel.receive()
    return answer


def _pid(pidfd: int) -> int:
    """The process behind a pidfd; the zygote knows it by the id of its own namespace."""
    lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Pid:")))
