"""The real sandbox service for tests."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import Process, running_service
from tests.support.runtimes import FOLDER, installed_runtime

ANSWER_SECONDS = 300.0
TIME_LIMITS = {"compile_timeout": 60, "run_timeout": 60}
"""For programs that end by themselves: on a busy machine the defaults may be too short."""
PREPARED = FOLDER.parent / "sandbox" / "prepared"
"""Precompiled inputs of compilers, shared by all tests."""


@dataclass(frozen=True)
class Sandbox:
    """A running service."""

    url: str
    http: httpx.Client
    process: Process

    def run(self, code: str, language: str = "python", **fields: Any) -> dict[str, Any]:
        """Run a program; the request must be valid."""
        body = {"code": code, "language": language, **TIME_LIMITS, **fields}
        answer = self.http.post("/run_code", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    @contextlib.contextmanager
    def started(
        self, code: str, language: str = "python", **fields: Any
    ) -> Iterator[Callable[[], dict[str, Any]]]:
        """Run a program in the background; yields a function that returns its answer."""
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(self.run, code, language, **fields)
            yield answer.result

    def output(self, code: str, language: str = "python", **fields: Any) -> str:
        """Run a program that must succeed; return what it printed."""
        answer = self.run(code, language, **fields)
        assert answer["status"] == "Success", answer
        return str(answer["run_result"]["stdout"])


@contextlib.contextmanager
def running_sandbox(
    folder: Path, *, launcher: Sequence[str] = (), **settings: str
) -> Iterator[Sandbox]:
    """A sandbox on a free port with its log in ``folder``, once it is ready.

    ``settings`` are environment variables. Skips where the runtime is not installed.
    """
    installed_runtime("sandbox")
    env = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_RUNTIMES": str(FOLDER),
        "TEMPER_SANDBOX_PREPARED": str(PREPARED),
        **settings,
    }
    with (
        running_service("services.sandbox", env, folder / "sandbox.log", launcher) as (
            process,
            url,
        ),
        httpx.Client(base_url=url, timeout=ANSWER_SECONDS) as http,
    ):
        yield Sandbox(url, http, process)
