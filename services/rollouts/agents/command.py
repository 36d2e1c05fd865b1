"""Agents that are programs: each session is a process tree in a folder of its own."""

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agents import CommandAgent
from services.core.process.runtimes import MARKER, foreign_environment
from services.core.process.supervised import (
    StartFailed,
    SupervisedProcess,
    lease_clock,
    nested_tree_name,
)
from services.rollouts.agents.failed import AgentFailed

SESSION_FILE = "session.json"
LOG = "output.log"
GRACE_SECONDS = 5.0
LOOK_SECONDS = 0.25
TAIL_BYTES = 500


class RunningCommand:
    """Starts the command once a session, in at most ``processes`` sessions at a time."""

    def __init__(self, command: Sequence[str], agent: CommandAgent) -> None:
        self._command = command
        self._agent = agent
        self._threads = ThreadPoolExecutor(agent.processes, "agent")
        self._ending = threading.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def play(self, session: JsonObject) -> JsonObject:
        """Run the command for a session; see `RunningAgent`. A command says its reward by
        POST /v1/reward, so there is nothing to return."""
        stop = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._run, session, stop)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            raise
        return {}

    def _run(self, session: JsonObject, stop: threading.Event) -> None:
        with TemporaryDirectory(prefix="temper-agent-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            content = {**session, "arguments": self._agent.arguments}
            (folder / SESSION_FILE).write_text(json.dumps(content))
            try:
                process = SupervisedProcess.start(
                    self._command,
                    cwd=folder,
                    env=variables(session, folder),
                    log=folder / LOG,
                    tree=nested_tree_name(os.environ.get(MARKER)),
                    deadline=lease_clock() + self._agent.timeout,
                    grace_seconds=GRACE_SECONDS,
                )
            except StartFailed as failed:
                raise AgentFailed(failed.message, InfrastructureCause.MISCONFIGURED) from failed
            while not process.wait(LOOK_SECONDS):
                if stop.is_set() or self._ending.is_set():
                    process.end()
            self._check(process, folder / LOG)

    def _check(self, process: SupervisedProcess, log: Path) -> None:
        """Raise `AgentFailed` unless the command ended with exit code 0."""
        name = self._agent.command
        if process.expired:
            message = f"command {name!r} did not end within {self._agent.timeout:g} s"
            raise AgentFailed(message, None)
        if process.returncode:
            message = f"command {name!r} ended with exit code {process.returncode}: {_tail(log)}"
            raise AgentFailed(message, InfrastructureCause.SERVICE_ERROR)


def variables(session: JsonObject, folder: Path) -> dict[str, str]:
    """The whole environment of a command: where the model is, under the names that clients read.

    ANTHROPIC_BASE_URL ends before ``/v1``, as Anthropic's clients expect.
    """
    base_url, key = str(session["base_url"]), str(session["api_key"])
    return {
        **foreign_environment(folder),
        "TEMPER_SESSION": str(folder / SESSION_FILE),
        "TEMPER_MODEL": str(session["model"]),
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": key,
    }


def _tail(log: Path) -> str:
    """The end of what a command printed."""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode(errors="replace").strip() or "it printed nothing"
