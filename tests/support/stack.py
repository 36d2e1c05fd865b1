"""A local stack in its own folder, driven through the command line."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from temper.stack.processes import ProcessIdentity, group_members
from temper.stack.services import Service
from temper.stack.state import StackFile, StackState, StackStatus
from tests.support.waiting import wait_for

DEADLINE = 240.0


class Home:
    """A home folder, and the commands run on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = StackFile(path)
        self.started: list[subprocess.Popen[str]] = []
        self.variables: dict[str, str] = {}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "temper", *arguments]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "TEMPER" not in name}
        own = {"TEMPER_HOME": str(self.path), "TEMPER_GRACE_SECONDS": "5"}
        return {**kept, **own, **self.variables}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    def up(self) -> tuple["subprocess.Popen[str]", StackState]:
        """Start a stack in the foreground and wait until it is ready."""
        process = self.start("up", "--port", "0", "--timeout", str(DEADLINE))
        state = wait_for(lambda: self.ready_state(process), "the stack is ready", DEADLINE)
        return process, state

    def ready_state(self, process: "subprocess.Popen[str]") -> StackState | None:
        assert process.poll() is None, process.communicate()
        state = self.file.running()
        return state if state and state.status is StackStatus.READY else None


def processes(state: StackState) -> dict[Service, ProcessIdentity]:
    return {service.name: service.process for service in state.services}


def all_processes_ended(state: StackState) -> bool:
    return not any(group_members(process.pid) for process in processes(state).values())


@contextlib.contextmanager
def home_in(path: Path) -> Iterator[Home]:
    """A home folder for the duration of a block; its processes are stopped afterwards."""
    home = Home(path)
    try:
        yield home
    finally:
        home.run("down")
        for process in home.started:
            process.kill()
            process.communicate()
